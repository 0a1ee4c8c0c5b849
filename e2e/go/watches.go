package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// A watch that begins with what there is, says so, and goes on; one from a version; and one from a version too old.
func watchList(j *journey) {
	j.fill(5)
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	yes := true
	watching, err := maps.Watch(j, metav1.ListOptions{
		LabelSelector: "filled=yes", SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	j.must(err)
	defer watching.Stop()
	var mark *corev1.ConfigMap
	for seen := 0; mark == nil; seen++ {
		event := receive(j, "initial events", watching.ResultChan())
		if event.Type == watch.Bookmark {
			j.equal("objects before the mark", seen, 5)
			mark = event.Object.(*corev1.ConfigMap)
		} else {
			j.equal("the type of an initial event", event.Type, watch.Added)
		}
	}
	j.equal("the mark", mark.Annotations, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	j.must(maps.Delete(j, "n-000", metav1.DeleteOptions{}))
	event := receive(j, "a deletion", watching.ResultChan())
	j.equal("what comes next", event.Type, watch.Deleted)
	gone := event.Object.(*corev1.ConfigMap)
	later, err := maps.Watch(j, metav1.ListOptions{ResourceVersion: mark.ResourceVersion})
	j.must(err)
	defer later.Stop()
	event = receive(j, "the same from its version", later.ResultChan())
	j.equal("what came after the mark", event.Object, runtime.Object(gone))

	// leaving a selection is a deletion, entering one is an addition
	moved, err := maps.Get(j, "n-001", metav1.GetOptions{})
	j.must(err)
	moved.Labels["filled"] = "no"
	moved, err = maps.Update(j, moved, metav1.UpdateOptions{})
	j.must(err)
	event = receive(j, "what left", watching.ResultChan())
	j.equal("leaving", event.Type, watch.Deleted)
	left := event.Object.(*corev1.ConfigMap)
	j.equal("the version at which it left", left.ResourceVersion, moved.ResourceVersion)
	j.equal("its last labels", left.Labels["filled"], "yes")
	j.refusedWatches()
}

func (j *journey) refusedWatches() {
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	yes := true
	_, err := maps.Watch(j, metav1.ListOptions{SendInitialEvents: &yes})
	j.refused("initial events without a match", err, apierrors.IsInvalid, "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	_, err = maps.Watch(j, metav1.ListOptions{ResourceVersion: "nonsense"})
	j.refused("no version", err, apierrors.IsBadRequest, `Invalid value: "nonsense"`)
	// each server answers in one of two ways: with an error, or with an event
	old, err := j.kube.CoreV1().Namespaces().Watch(j, metav1.ListOptions{ResourceVersion: "1"})
	if err == nil {
		defer old.Stop()
		event := receive(j, "an event of old", old.ResultChan())
		if event.Type == watch.Error {
			err = apierrors.FromObject(event.Object)
		}
	}
	if err != nil {
		j.that(apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "a version too old: %v", err)
	}
	short := int64(1)
	brief, err := maps.Watch(j, metav1.ListOptions{TimeoutSeconds: &short, FieldSelector: "metadata.name=none"})
	j.must(err)
	for event := range brief.ResultChan() {
		j.failf("an event of nothing: %v", event)
	}
}

// What kubectl wait and many controllers stand on.
func watchTools(j *journey) {
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	one := fields.OneTermEqualSelector("metadata.name", "awaited").String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = one
			return maps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = one
			return maps.Watch(ctx, options)
		},
	}
	begun := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-begun:
		case <-j.Done():
			return
		}
		_, _ = maps.Create(j, configMap("awaited", map[string]string{"a": "1"}), metav1.CreateOptions{})
		_ = maps.Delete(j, "awaited", metav1.DeleteOptions{})
	}()
	last, err := watchtools.UntilWithSync(j, source, &corev1.ConfigMap{}, func(cache.Store) (bool, error) {
		once.Do(func() { close(begun) })
		return false, nil
	}, func(event watch.Event) (bool, error) { return event.Type == watch.Deleted, nil })
	j.must(err)
	j.equal("what was deleted last", last.Object.(*corev1.ConfigMap).Data, map[string]string{"a": "1"})

	list, err := maps.List(j, metav1.ListOptions{})
	j.must(err)
	again, err := watchtools.NewRetryWatcherWithContext(j, list.ResourceVersion, source)
	j.must(err)
	defer again.Stop()
	for i := range 3 {
		_, err = maps.Create(j, configMap("awaited", nil), metav1.CreateOptions{})
		j.must(err)
		j.equal(fmt.Sprint("addition ", i), receive(j, "an addition", again.ResultChan()).Type, watch.Added)
		j.must(maps.Delete(j, "awaited", metav1.DeleteOptions{}))
		j.equal(fmt.Sprint("deletion ", i), receive(j, "a deletion", again.ResultChan()).Type, watch.Deleted)
	}
}

// Informers hold through an end of the server: who runs this restarts it when told, and says so in a line.
func restart(j *journey) {
	factory := informers.NewSharedInformerFactoryWithOptions(j.kube, 0, informers.WithNamespace(j.namespace))
	informer := factory.Core().V1().ConfigMaps()
	var lock sync.Mutex
	deleted := map[string]bool{}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		lock.Lock()
		defer lock.Unlock()
		deleted[key] = true
	}})
	j.must(err)
	j.fill(3)
	factory.StartWithContext(j)
	for kind, synced := range factory.WaitForCacheSync(j.Done()) {
		j.that(synced, "%s is not in sync", kind)
	}
	fmt.Println("restart the server")
	line := make(chan string)
	go func() {
		text, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		line <- text
	}()
	j.equal("what is said", receive(j, "the restart", line), "restarted\n")
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	j.until("it answers", func() bool {
		_, err := maps.Get(j, "n-000", metav1.GetOptions{})
		return err == nil
	})
	j.must(maps.Delete(j, "n-000", metav1.DeleteOptions{}))
	_, err = maps.Create(j, configMap("later", nil), metav1.CreateOptions{})
	j.must(err)
	j.until("the informer has seen what came later", func() bool {
		_, err := informer.Lister().ConfigMaps(j.namespace).Get("later")
		return err == nil
	})
	j.until("it has seen what went", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return deleted[j.namespace+"/n-000"]
	})
	for name := range deleted {
		j.equal("what went", name, j.namespace+"/n-000")
	}
}
