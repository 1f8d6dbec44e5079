"""Recognize hand-written digits with a support vector machine, in the style of scikit-learn."""

from concurrent.futures import ProcessPoolExecutor

import joblib
from sklearn import datasets, metrics, svm
from sklearn.model_selection import GridSearchCV, train_test_split


def fraction(prediction):
    return float(prediction[0] == prediction[1])


if __name__ == "__main__":
    digits = datasets.load_digits()
    data = digits.images.reshape((len(digits.images), -1))
    X_train, X_test, y_train, y_test = train_test_split(
        data, digits.target, test_size=0.5, shuffle=False
    )
    search = GridSearchCV(svm.SVC(), {"gamma": [0.001, 0.01]}, cv=2)
    search.fit(X_train, y_train)
    predicted = search.predict(X_test)
    print(f"Classification report for {search.best_estimator_}:")
    print(metrics.classification_report(y_test, predicted))
    with ProcessPoolExecutor(2) as pool:
        accuracy = sum(pool.map(fraction, zip(predicted, y_test), chunksize=500)) / len(y_test)
    print(f"accuracy {accuracy:.3f}")
    joblib.dump(search.best_estimator_, "digits.joblib")
