// Package web serves browsers, curl and others that speak HTTP and no gRPC: calls as Connect, as its plain JSON and as
// gRPC-Web, streams over WebSockets, the files of the console, and the sessions of those who log in to it.
//
// It decides nothing about calls. Each goes over a connection in memory to the gRPC server, as a client's would that
// dialled it: the same limits, checks, quotas and errors hold, and what a browser does to its connection reaches no
// other. What is of HTTP alone is decided here: origins, cookies, and how much of bodies and time a request may have.
package web
