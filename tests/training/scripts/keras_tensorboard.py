"""Fit a small regression model with callbacks, in the style of Keras' examples."""

import keras
import numpy as np
from keras import layers

x = np.random.default_rng(0).random((256, 8), dtype="float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1)])
model.compile(loss="mse", optimizer="adam", metrics=["mae"])
model.summary()
callbacks = [
    keras.callbacks.TensorBoard(log_dir="./logs"),
    keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
]
model.fit(x, y, epochs=2, validation_split=0.25, callbacks=callbacks)
print("loss", model.evaluate(x, y, verbose=0)[0])
