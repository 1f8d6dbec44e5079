"""What runs beside a supervisor where there is no server: in a pod, on another machine.

It brings a trial's code and data here, has the same supervisor run it in a home of its own, and
carries what that writes down to the server: the same files, byte for byte. Like all of `worker`
it is the standard library alone. It is the only part of it that talks to the server, and keeps
whatever the server has not taken in yet.
"""
