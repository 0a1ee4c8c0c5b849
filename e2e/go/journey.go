package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A journey is one run of a step: its clients, its namespace, and how it fails.
type journey struct {
	context.Context
	config *rest.Config
	// Typed clients speak protobuf, as controllers' do.
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	crds     apiextensions.Interface
	// A namespace of this run alone.
	namespace string
}

// What ends a step early.
type failure struct{ error }

func run(name, kubeconfig string, timeout time.Duration) (err error) {
	step, known := steps[name]
	if !known {
		return fmt.Errorf("there is no such step")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case failure:
			err = cause.error
		default:
			err = fmt.Errorf("%v\n%s", cause, debug.Stack())
		}
	}()
	j := connect(ctx, kubeconfig, name)
	step(j)
	// only of steps that hold: what failed can be looked at
	j.must(j.kube.CoreV1().Namespaces().Delete(ctx, j.namespace, metav1.DeleteOptions{}))
	return nil
}

func connect(ctx context.Context, kubeconfig, name string) *journey {
	j := &journey{Context: ctx}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	j.must(err)
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "go-clients/" + name
	j.config = config
	typed := rest.CopyConfig(config)
	typed.ContentType = runtime.ContentTypeProtobuf
	typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	j.kube, err = kubernetes.NewForConfig(typed)
	j.must(err)
	j.dynamic, err = dynamic.NewForConfig(config)
	j.must(err)
	j.metadata, err = metadata.NewForConfig(config)
	j.must(err)
	j.crds, err = apiextensions.NewForConfig(typed)
	j.must(err)
	j.namespace = name + "-" + rand.String(6)
	_, err = j.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace}}, metav1.CreateOptions{})
	j.must(err)
	j.until("pods may be made", func() bool {
		_, err := j.kube.CoreV1().ServiceAccounts(j.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return j
}

func (j *journey) failf(format string, args ...any) {
	panic(failure{fmt.Errorf(format+"\n%s", append(args, callers())...)})
}

func (j *journey) must(err error) {
	if err != nil {
		j.failf("%v", err)
	}
}

func (j *journey) that(holds bool, format string, args ...any) {
	if !holds {
		j.failf(format, args...)
	}
}

// Values are compared as Go sees them, but for empty lists and maps: protobuf has none.
func (j *journey) equal(what string, got, want any) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		j.failf("%s (-want +got):\n%s", what, diff)
	}
}

func (j *journey) refused(what string, err error, is func(error) bool, message string) {
	if err == nil {
		j.failf("%s was not refused", what)
	}
	if !is(err) || !strings.Contains(err.Error(), message) {
		status, _ := err.(apierrors.APIStatus)
		j.failf("%s was refused with %v (%#v), expected %q", what, err, status, message)
	}
}

// Waits for a condition, asking again whenever it might hold.
func (j *journey) until(what string, holds func() bool) {
	for !holds() {
		select {
		case <-j.Done():
			j.failf("in vain waited until %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A value from a channel, before the step's time is over.
func receive[T any](j *journey, what string, from <-chan T) T {
	select {
	case value, open := <-from:
		j.that(open, "%s ended", what)
		return value
	case <-j.Done():
		j.failf("in vain waited for %s", what)
	}
	panic("unreachable")
}

func callers() string {
	var lines []string
	for _, line := range strings.Split(string(debug.Stack()), "\n") {
		if strings.Contains(line, "/e2e/go/") && !strings.Contains(line, "journey.go") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}
