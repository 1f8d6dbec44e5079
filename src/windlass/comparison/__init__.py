"""What differs between trials, and between experiments: pure functions of their records.

Code line by line, arguments, environment, resources, metrics; tables of many trials. Imports
`model` only: whoever asks brings the trees, files and package lists.
"""
