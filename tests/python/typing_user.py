"""A user's program, for the type checker."""

import ruge

graph = ruge.Graph([("a", "r", "b")], held_out=(0, 0))
rules: ruge.Rules = ruge.mine(graph, min_pca=0.5)
model: ruge.Model = ruge.train(graph, dim=4, epochs=1)
answers: ruge.Answers = model.predict("a", "r", top=3)
mrr: float = model.evaluate("train").mrr
sentence: str = model.explain("a", "r", "b").sentence
