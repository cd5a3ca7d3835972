"""Inspect or interrupt the evaluations of a fit."""

from dataclasses import fields, replace
from functools import cache


def hooked(estimator_class, hook):
    """The estimator with ``hook(Z, kwargs)`` called before each evaluation of its objective."""

    @cache
    def kind_of(kind):
        def call(self, Z, target, **kwargs):
            hook(Z, kwargs)
            return kind.__call__(self, Z, target, **kwargs)

        return type(kind.__name__, (kind,), {"__call__": call})

    def _method(self, data):
        method = super(subclass, self)._method(data)
        objective = method.objective
        # `dataclasses.replace` of the objective keeps its class, and so the hook
        parts = {field.name: getattr(objective, field.name) for field in fields(objective)}
        return replace(method, objective=kind_of(type(objective))(**parts))

    subclass = type(estimator_class.__name__, (estimator_class,), {"_method": _method})
    return subclass
