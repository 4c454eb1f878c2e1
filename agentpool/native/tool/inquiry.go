package tool

// Inquiry is a question to the user that needs more than yes or no. Whoever
// runs the action asks it and sets Answer.
type Inquiry struct {
	Question string
	Choices  []string // empty: any text
	Free     bool     // any text beside the choices
	Many     bool     // several choices

	Answer Answer
}

// Answer is what came of an Inquiry.
type Answer struct {
	// Chosen are choices, word for word, Text is what the user wrote himself.
	Chosen []string
	Text   string
	// Why says why there is neither, in words for the model; "" if there is an
	// answer.
	Why string
	// Refused tells that the user himself did not want to answer.
	Refused bool
}
