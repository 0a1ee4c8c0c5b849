// Command go-clients runs steps of Go clients against a cluster, as controllers and tools built on client-go do.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"k8s.io/klog/v2"
)

// A step is one promise of an API server. It fails through its journey, never by returning.
type step func(j *journey)

// What there is to run, by name. Steps do not need each other and may run again over what they left.
var steps = map[string]step{
	"typed":        typed,
	"errors":       statusErrors,
	"patches":      patches,
	"apply":        typedApply,
	"apply-status": applyStatus,
	"lists":        lists,
	"collections":  collections,
	"owners":       owners,
	"finalizers":   finalizers,
	"watch-list":   watchList,
	"watch-tools":  watchTools,
	"informers":    everyInformer,
	"metadata":     metadataOnly,
	"restart":      restart,
	"leader":       leader,
	"controller":   controller,
	"discovery":    discover,
	"openapi":      openAPI,
	"scale":        scales,
	"reviews":      reviews,
	"tokens":       tokens,
	"eviction":     evictions,
	"events":       events,
	"definitions":  definitions,
	"custom":       customObjects,
	"encodings":    encodings,
	"defaults":     defaults,
	"tables":       tables,
	"streams":      streams,
	"revisions":    revisions,
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that says where the cluster is and who asks")
	timeout := flag.Duration("timeout", 4*time.Minute, "how long a step may take")
	klog.InitFlags(nil)
	flag.Parse()
	if flag.Arg(0) == "list" {
		names := make([]string, 0, len(steps))
		for name := range steps {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Println(name)
		}
		return
	}
	failed := false
	for _, name := range flag.Args() {
		if err := run(name, *kubeconfig, *timeout); err != nil {
			fmt.Printf("FAIL %s: %v\n", name, err)
			failed = true
			continue
		}
		fmt.Printf("ok %s\n", name)
	}
	if failed {
		os.Exit(1)
	}
}
