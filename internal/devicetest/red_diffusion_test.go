package devicetest

import (
	"context"
	"errors"

	"github.com/polyscan/polyscan/kernels/driver"
)

func diffusionMistakes() []mistake {
	return []mistake{
		{part: "diffusion", name: "a value is a hundredth off", says: "values differ",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.DiffusionSolve) error {
					v := make([]float32, op.Channels*op.Grid.Width*op.Grid.Height)
					err := errors.Join(s.Stream.Run(op), s.Stream.Download(bytesOf(v), op.X),
						s.Stream.Wait(context.Background()))
					if err != nil {
						return err
					}
					v[len(v)/2] += 0.01
					return errors.Join(s.Stream.Upload(op.X, [][]byte{bytesOf(v)}), s.Stream.Wait(context.Background()))
				})
			})},
		{part: "diffusion", name: "nothing is solved", says: "values differ", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.DiffusionSolve) error {
				x := op.X
				x.Len = op.Colours.Len
				return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: x, Value: 0}))
			})
		})},
		{part: "diffusion", name: "it says that it has converged, and nothing else", says: "cycles",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.DiffusionSolve) error {
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: op.Status, Value: 0}))
				})
			})},
		{part: "diffusion", name: "a set-up counts nothing", says: "Fixed", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.DiffusionSetup) error {
				return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: op.Counts, Value: 0}))
			})
		})},
		{part: "diffusion", name: "edges that are open one way are open", says: "values differ",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.DiffusionSetup) error {
					if !op.Grid.OneWay {
						return s.Stream.Run(op)
					}
					flags := make([]byte, op.Flags.Len)
					err := errors.Join(s.Stream.Download(flags, op.Flags), s.Stream.Wait(context.Background()))
					for i := range flags {
						flags[i] &^= driver.DiffusionShuts
					}
					return errors.Join(err, s.Stream.Upload(op.Flags, [][]byte{flags}), s.Stream.Run(op),
						s.Stream.Wait(context.Background()))
				})
			})},
		{part: "diffusion", name: "a solve uses its set-up as scratch", says: "has changed its set-up",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.DiffusionSolve) error {
					last := op.Setup
					last.Off, last.Len = last.Off+last.Len-1, 1
					return errors.Join(s.Stream.Run(op), s.Stream.Run(&driver.Fill{Dst: last, Value: 0x11}))
				})
			})},
		{part: "diffusion", name: "a threshold is four times as large", says: "cycles",
			drv: onStream(func(s *brokenStream) {
				replace(s, func(op *driver.DiffusionSolve) error {
					more := *op
					more.Threshold *= 4
					return s.Stream.Run(&more)
				})
			})},
		{part: "diffusion", name: "any set-up will do", says: "no error", drv: onStream(func(s *brokenStream) {
			replace(s, func(op *driver.DiffusionSolve) error {
				again := driver.DiffusionSetup{Grid: op.Grid, Flags: op.Flags, Dst: op.Setup, Counts: op.Status}
				again.Counts.Len = 8
				return errors.Join(s.Stream.Run(&again), s.Stream.Run(op))
			})
		})},
	}
}
