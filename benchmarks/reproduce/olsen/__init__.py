"""The tables and figures of Olsen and Petersen's report computed again."""
