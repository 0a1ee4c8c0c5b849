package main

import (
	"context"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	newevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Of two who want to lead one does, and when that one goes the other follows.
func leader(j *journey) {
	leads := make(chan string, 2)
	contend := func(name string) context.CancelFunc {
		ctx, stop := context.WithCancel(j)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: j.namespace, Name: "lead"},
				Client:     j.kube.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- name },
				OnStoppedLeading: func() {},
			},
		})
		j.must(err)
		go elector.Run(ctx)
		return stop
	}
	stops := map[string]context.CancelFunc{"a": contend("a"), "b": contend("b")}
	first := receive(j, "a leader", leads)
	stops[first]()
	second := receive(j, "a second leader", leads)
	j.that(first != second, "%s follows itself", first)
	var lease *coordinationv1.Lease
	j.until("the lease names the second", func() bool {
		var err error
		lease, err = j.kube.CoordinationV1().Leases(j.namespace).Get(j, "lead", metav1.GetOptions{})
		j.must(err)
		return *lease.Spec.HolderIdentity == second
	})
	j.that(lease.Spec.RenewTime != nil && !lease.Spec.RenewTime.Time.IsZero(), "the lease has no time")
	stops[second]()
}

// A controller as they are written: informer, queue, workers. It copies what one map says into another.
func controller(j *journey) {
	factory := informers.NewSharedInformerFactoryWithOptions(j.kube, 0, informers.WithNamespace(j.namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "filled=yes" }))
	source := factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := source.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, now any) { enqueue(now) }, DeleteFunc: enqueue,
	})
	j.must(err)
	factory.StartWithContext(j)
	factory.WaitForCacheSync(j.Done())
	var copied atomic.Int32
	secrets := j.kube.CoreV1().Secrets(j.namespace)
	sync := func(key string) error {
		_, name, _ := cache.SplitMetaNamespaceKey(key)
		if _, err := source.Lister().ConfigMaps(j.namespace).Get(name); err != nil {
			return secrets.Delete(j, name, metav1.DeleteOptions{})
		}
		_, err := secrets.Create(j, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"of": name}}, metav1.CreateOptions{})
		if err == nil {
			copied.Add(1)
		}
		return err
	}
	for range 4 {
		go func() {
			for {
				key, down := queue.Get()
				if down {
					return
				}
				if err := sync(key); err != nil && queue.NumRequeues(key) < 3 {
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		}()
	}
	j.fill(20)
	j.until("all are copied", func() bool { return copied.Load() == 20 })
	secret, err := secrets.Get(j, "n-007", metav1.GetOptions{})
	j.must(err)
	j.equal("what a copy says", string(secret.Data["of"]), "n-007")
	j.must(j.kube.CoreV1().ConfigMaps(j.namespace).DeleteCollection(j, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "filled=yes"}))
	j.until("all copies are gone", func() bool {
		left, err := secrets.List(j, metav1.ListOptions{LabelSelector: labels.Everything().String()})
		j.must(err)
		return len(left.Items) == 0
	})
}

// Both broadcasters, and what they do with what happens again.
func events(j *journey) {
	about, err := j.kube.CoreV1().ConfigMaps(j.namespace).Create(j, configMap("about", nil), metav1.CreateOptions{})
	j.must(err)
	old := record.NewBroadcaster(record.WithContext(j))
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: j.kube.CoreV1().Events(j.namespace)})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "go-clients"})
	for range 3 {
		recorder.Eventf(about, corev1.EventTypeNormal, "Told", "told %d", 1)
	}
	j.until("an event was counted", func() bool {
		list, err := j.kube.CoreV1().Events(j.namespace).List(j, metav1.ListOptions{FieldSelector: "involvedObject.name=about,reason=Told"})
		j.must(err)
		return len(list.Items) == 1 && list.Items[0].Count == 3
	})
	fresh := newevents.NewBroadcaster(&newevents.EventSinkImpl{Interface: j.kube.EventsV1()})
	defer fresh.Shutdown()
	j.must(fresh.StartRecordingToSinkWithContext(j))
	teller := fresh.NewRecorder(scheme.Scheme, "example.com/go-clients")
	var list *eventsv1.EventList
	j.until("an event has become a series", func() bool {
		teller.Eventf(about, nil, corev1.EventTypeWarning, "Retold", "Tell", "told again")
		list, err = j.kube.EventsV1().Events(j.namespace).List(j, metav1.ListOptions{FieldSelector: "reason=Retold"})
		j.must(err)
		return len(list.Items) == 1 && list.Items[0].Series != nil
	})
	event := list.Items[0]
	j.that(event.Series.Count > 1 && !event.EventTime.IsZero() && event.Action == "Tell", "the event is %v", event)
	j.equal("what it is about", event.Regarding.UID, about.UID)
}
