"""What is the program? Its stages, names, equations and later forms, what each transformation and each pass of the compiler made of it."""
