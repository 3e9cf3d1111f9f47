"""The web page: a local server without a model, one worker process with it, and static files of our own."""

from inweights.app._settings import ServerSettings as ServerSettings
from inweights.app._settings import new_token as new_token
from inweights.app._start import serve as serve
