"""Pictures: networks laid out, and figures of what was predicted and measured."""
