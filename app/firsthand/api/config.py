"""The base of every plugin's settings."""

from pydantic import BaseModel, ConfigDict


class PluginConfig(BaseModel):
    """Settings of one plugin class: frozen, and unknown keys are refused.

    The settings form, the check before a session, and the record of what was used are all made
    from the fields and their descriptions. Secrets have no place here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
