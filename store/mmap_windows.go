package store

// mmapAhead says whether mapping more than the file costs nothing. Here it
// would make the file as large as the map.
const mmapAhead = false
