"""From shards to a model: dense weights read as stored, experts and Engram tables left where they are."""
