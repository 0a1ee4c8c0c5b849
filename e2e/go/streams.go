package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

const echo = `echo started; while read line; do echo "got $line"; done; exec sleep 3600`

// Commands, attached terminals, logs and forwarded ports, over WebSockets and SPDY.
func streams(j *journey) {
	pods := j.kube.CoreV1().Pods(j.namespace)
	now := int64(0)
	_, err := pods.Create(j, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shell"},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &now, Containers: []corev1.Container{{
			Name: "main", Image: "host", Stdin: true, Command: []string{"sh", "-c", echo},
		}}},
	}, metav1.CreateOptions{})
	j.must(err)
	j.until("the pod runs", func() bool {
		pod, err := pods.Get(j, "shell", metav1.GetOptions{})
		j.must(err)
		return pod.Status.Phase == corev1.PodRunning
	})
	target := func(subresource string, options any) *url.URL {
		request := j.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(j.namespace).Name("shell").SubResource(subresource)
		if options, is := options.(*corev1.PodExecOptions); is {
			request.VersionedParams(options, scheme.ParameterCodec)
		}
		if options, is := options.(*corev1.PodAttachOptions); is {
			request.VersionedParams(options, scheme.ParameterCodec)
		}
		return request.URL()
	}
	for name, executor := range j.executors() {
		at := target("exec", &corev1.PodExecOptions{
			Command: []string{"sh", "-c", `cat; echo "said $1" >&2; exit 7`, "sh", "a b"}, Stdin: true, Stdout: true, Stderr: true,
		})
		var out, problems bytes.Buffer
		input := strings.Repeat("0123456789abcdef", 20_000)
		err := executor(at).StreamWithContext(j, remotecommand.StreamOptions{Stdin: strings.NewReader(input), Stdout: &out, Stderr: &problems})
		code, is := err.(exec.CodeExitError)
		j.that(is && code.Code == 7, "%s: the command ended with %v", name, err)
		j.that(out.String() == input, "%s: %d bytes of %d came back", name, out.Len(), len(input))
		j.equal(name+": what it complains of", problems.String(), "said a b\n")
		j.attached(name, executor(target("attach", &corev1.PodAttachOptions{Stdin: true, Stdout: true})))
	}
	log, err := pods.GetLogs("shell", &corev1.PodLogOptions{Container: "main"}).DoRaw(j)
	j.must(err)
	j.that(strings.HasPrefix(string(log), "started\n"), "the log is %q", log)
	j.forward(target("portforward", nil))
}

// Ways to run a command: one each, and what kubectl does.
func (j *journey) executors() map[string]func(*url.URL) remotecommand.Executor {
	socket := func(at *url.URL) remotecommand.Executor {
		made, err := remotecommand.NewWebSocketExecutor(j.config, "GET", at.String())
		j.must(err)
		return made
	}
	older := func(at *url.URL) remotecommand.Executor {
		made, err := remotecommand.NewSPDYExecutor(j.config, "POST", at)
		j.must(err)
		return made
	}
	return map[string]func(*url.URL) remotecommand.Executor{
		"websocket": socket,
		"spdy":      older,
		"fallback": func(at *url.URL) remotecommand.Executor {
			made, err := remotecommand.NewFallbackExecutor(socket(at), older(at), httpstream.IsUpgradeFailure)
			j.must(err)
			return made
		},
	}
}

func (j *journey) attached(name string, executor remotecommand.Executor) {
	ctx, detach := context.WithCancel(j)
	defer detach()
	input, typing := io.Pipe()
	heard := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: input, Stdout: lines(heard)})
	}()
	_, err := fmt.Fprintf(typing, "%s\n", name)
	j.must(err)
	j.equal("what is heard by "+name, receive(j, "an answer by "+name, heard), "got "+name+"\n")
	detach()
	receive(j, "the end of "+name, ended)
}

type lines chan<- string

func (l lines) Write(text []byte) (int, error) {
	l <- string(text)
	return len(text), nil
}

// A port of the pod's network at a port here.
func (j *journey) forward(at *url.URL) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	j.must(err)
	defer server.Close()
	go func() {
		_ = http.Serve(server, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, "forwarded") }))
	}()
	plain, upgrader, err := spdy.RoundTripperFor(j.config)
	j.must(err)
	socket, err := portforward.NewSPDYOverWebsocketDialer(at, j.config)
	j.must(err)
	for name, dialer := range map[string]httpstream.Dialer{
		"spdy":      spdy.NewDialer(upgrader, &http.Client{Transport: plain}, "POST", at),
		"websocket": socket,
	} {
		stop, ready := make(chan struct{}), make(chan struct{})
		forwarder, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", server.Addr().(*net.TCPAddr).Port)}, stop, ready, io.Discard, io.Discard)
		j.must(err)
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-ended:
			j.failf("%s: %v", name, err)
		}
		ports, err := forwarder.GetPorts()
		j.must(err)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for range 3 {
			answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
			j.must(err)
			text, err := io.ReadAll(answer.Body)
			j.must(err)
			j.equal(name+": what came through", string(text), "forwarded")
			answer.Body.Close()
		}
		close(stop)
		j.must(receive(j, "the end of "+name, ended))
	}
}
