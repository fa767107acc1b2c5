// Package diffusion solves for images of which only some pixels are given: each other pixel becomes the mean of its
// neighbours. That draws diffusion images from constraints, fills holes, and estimates a background from what lies
// around defects.
//
// [Solve] takes a [Problem] to a [Solution]; [Fill] is for pictures with holes, or with something in front of their
// background. [SolveDrawing] draws curves with colours along both sides as constraints, and blurs the picture around
// them; [Render] makes pixels of that, and a [Canvas] does after each change; [Extract] finds such curves in a picture.
//
// A solve looks for a set-up that the device has kept for constraints in the same places, whatever they came as, and
// leaves a new one for others while there is memory for it: see [kernels.Config.MemoBytes]. Results don't depend on
// that. A [Canvas] has a set-up of its own, as has what slow methods are compared with.
//
// # Conventions
//
// Pixels are float32 values in planes, one for each channel: value c of pixel (x, y) is at (c*Height+y)*Width + x. Any
// scale up to [MaxValue] will do; the default tolerance is for values from 0 to 1. A pixel has up to four neighbours:
// right, left, below and above. The border of the image is a missing edge, as is an edge that a flag blocks: nothing
// flows across.
//
// # Accuracy
//
// The exact solution is that of the linear equations, not of a continuous problem. Results come with an estimate of how
// far the values may be from it. It is mostly above the error; with blocked edges, and in narrow images of which few
// pixels are given, it may be up to about two times too low. That holds in mazes and in corridors one pixel wide, too:
// after 116,000 cycles in 27,000 random images of such the error was at most 1.92 times the estimate.
//
// The slow methods don't see their error: what rounding takes may be more than what a cycle changes. Theirs is measured
// as the distance from a solution by multigrid, plus that one's estimate, which is an eighth of the tolerance, or more
// where float32 doesn't allow that. They are looked at after each of the first cycles, and then whenever a quarter more
// have been made; that they have converged is seen then, and also that rounding leaves nothing that a cycle changes.
// The job has memory for both solutions, and for the larger of the solvers. Where edges are open one way, which
// multigrid can't solve, the estimate goes by how updates go down: in long corridors errors were up to 75 times as
// large, elsewhere often far smaller.
//
// Pixels that no open path connects with a given one are void: they become the mean of the given ones, and are counted.
package diffusion
