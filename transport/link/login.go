package link

// LoginFlag makes the shim, and `hermesd stdio`, log in to a provider of models
// on their terminal instead of serving an editor. The daemon offers it to editors
// that can run their command there.
const LoginFlag = "--login"
