package lock

import (
	"context"
	"os"
	"testing"
)

// Somebody who does nothing but replace the file keeps nobody who does not wait.
func TestAFileThatIsAlwaysReplaced(t *testing.T) {
	ended, end := context.WithTimeout(t.Context(), 0)
	defer end()
	tests := map[string]struct {
		ctx  context.Context
		opts Options
	}{
		"without a wait":        {t.Context(), Options{Mode: Process, NoWait: true}},
		"at the end of a limit": {ended, Options{Mode: Process, Limited: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			taker := &taker{path: t.TempDir() + "/lock", opts: tt.opts}
			taker.scene = func(f *os.File) (scene, error) {
				if err := os.Remove(f.Name()); err != nil {
					return scene{}, err
				}
				return newScene(f)
			}
			if l, err := taker.take(tt.ctx); err == nil { // and it returns
				t.Errorf("took %v", l)
			}
		})
	}
}
