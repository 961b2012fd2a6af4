"""Published tables as files: what to run (`spec`, `runs`, `cells`), running it (`runner`), summing up (`results`)."""
