"""The tables and figures of Oneață's thesis (2011) computed again."""
