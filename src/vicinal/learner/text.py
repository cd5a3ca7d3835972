"""Columns of text as numbers: TF-IDF of their words, reduced to a few components."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._validation import check_number
from vicinal.core.types import Array
from vicinal.learner.columns import as_array, is_frame, read_columns

_UNREDUCED = 4  # a text with fewer words than this many times the components is not reduced


class TextColumns(TransformerMixin, BaseEstimator):
    """Columns of text as numbers, for tables in which texts may be missing.

    Each column becomes the TF-IDF of its words, of length one for each row
    (:class:`sklearn.feature_extraction.text.TfidfVectorizer`), and then the best approximation of
    lower rank (:class:`sklearn.decomposition.TruncatedSVD`), unless it has few words.  A missing
    text has no words.

    Parameters
    ----------
    n_components : int, default=32
        Number of components for each column.  A column with fewer than four times as many words
        has one component for each word.
    max_words : int, default=20_000
        Largest number of words for each column; the most frequent ones are used.  A word that
        occurs in one row alone says nothing about other rows, and is never used.
    random_state : int, RandomState or None, default=None
        For the reduction, which is a randomised one.

    Attributes
    ----------
    words_ : list of lists of str
        The words of each column.
    idf_ : list of arrays of shape (n_words,)
        The weights of the words.
    components_ : list of arrays of shape (n_components, n_words) or None
        The reduction of each column; None if it is not reduced.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had string names.

    Examples
    --------
    >>> from vicinal.learner.text import TextColumns
    >>> columns = TextColumns().fit([["a cold fog"], [None], ["fog in a cold night"]])
    >>> columns.transform([["a warm fog"], [None]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    >>> columns.get_feature_names_out().tolist()
    ['x0_cold', 'x0_fog']
    """

    def __init__(
        self, n_components: int = 32, *, max_words: int = 20_000, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_words = max_words
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> TextColumns:
        """Find the words of each column, their weights and the reduction.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)
        y : ignored

        Returns
        -------
        self : TextColumns
        """
        check_number(self, "n_components", 1, integer=True)
        check_number(self, "max_words", 1, integer=True)
        columns = self._columns(X, reset=True)
        self.words_: list[list[str]] = []
        self.idf_: list[Array] = []
        self.components_: list[Array | None] = []
        for name, texts in zip(self._names(), columns, strict=True):
            vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=self.max_words)
            try:
                weights = vectorizer.fit_transform(texts)
            except ValueError as error:
                raise ValueError(f"Column {name!r} has no word that occurs in two rows.") from error
            self.words_.append(vectorizer.get_feature_names_out().tolist())
            self.idf_.append(vectorizer.idf_)
            self.components_.append(self._reduction(weights))
        return self

    def _reduction(self, weights: Any) -> Array | None:
        if weights.shape[1] < _UNREDUCED * self.n_components:
            return None
        svd = TruncatedSVD(self.n_components, random_state=self.random_state)
        components: Array = svd.fit(weights).components_
        return components

    def transform(self, X: Any) -> Array:
        """The columns as numbers.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out)
        """
        check_is_fitted(self, "words_")
        parts = []
        fitted = zip(self.words_, self.idf_, self.components_, strict=True)
        for texts, (words, idf, components) in zip(self._columns(X), fitted, strict=True):
            vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=words)
            vectorizer.idf_ = idf
            weights = vectorizer.transform(texts)
            parts.append(weights.toarray() if components is None else weights @ components.T)
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the numbers: column and word, or column and number of the component."""
        check_is_fitted(self, "words_")
        names: list[str] = []
        fitted = zip(self._names(), self.words_, self.components_, strict=True)
        for column, words, components in fitted:
            ends = words if components is None else range(len(components))
            names += [f"{column}_{end}" for end in ends]
        return np.array(names, dtype=object)

    def _names(self) -> list[str]:
        numbered = [f"x{j}" for j in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", numbered))

    def _columns(self, X: Any, reset: bool = False) -> list[list[str]]:
        """The texts of each column; missing ones are empty."""
        X = X if is_frame(X) else as_array(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        columns = [column.without_gaps() for column in read_columns(X)]
        return [list(map(str, column.filled(""))) for column in columns]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags
