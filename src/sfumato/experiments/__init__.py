"""Published tables as files: what to run (`spec`), running it so that nothing is lost (`runner`), summing up (`results`)."""
