package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// What depends on something goes with it, before it, or stays.
func owners(j *journey) {
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	yes := true
	family := func(name string) {
		owner, err := maps.Create(j, configMap(name, nil), metav1.CreateOptions{})
		j.must(err)
		child := configMap(name+"-child", nil)
		reference := metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		reference.BlockOwnerDeletion = &yes
		child.OwnerReferences = []metav1.OwnerReference{*reference}
		_, err = maps.Create(j, child, metav1.CreateOptions{})
		j.must(err)
	}
	gone := func(name string) {
		j.until(name+" is gone", func() bool {
			_, err := maps.Get(j, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	for _, how := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		family("parent")
		j.must(maps.Delete(j, "parent", metav1.DeleteOptions{PropagationPolicy: &how}))
		if how == metav1.DeletePropagationForeground {
			if left, err := maps.Get(j, "parent", metav1.GetOptions{}); err == nil {
				j.equal("what holds the parent", left.Finalizers, []string{metav1.FinalizerDeleteDependents})
			}
		}
		gone("parent-child")
		gone("parent")
	}
	family("orphaning")
	orphan := metav1.DeletePropagationOrphan
	j.must(maps.Delete(j, "orphaning", metav1.DeleteOptions{PropagationPolicy: &orphan}))
	gone("orphaning")
	left, err := maps.Get(j, "orphaning-child", metav1.GetOptions{})
	j.must(err)
	j.equal("owners of the orphan", len(left.OwnerReferences), 0)
}

// An object that is held stays until nobody holds it, and takes no more holds.
func finalizers(j *journey) {
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	held := configMap("held", nil)
	held.Finalizers = []string{"example.com/hold"}
	_, err := maps.Create(j, held, metav1.CreateOptions{})
	j.must(err)
	j.must(maps.Delete(j, "held", metav1.DeleteOptions{}))
	ending, err := maps.Get(j, "held", metav1.GetOptions{})
	j.must(err)
	j.that(ending.DeletionTimestamp != nil && *ending.DeletionGracePeriodSeconds == 0, "it does not end: %v", ending.ObjectMeta)
	more := ending.DeepCopy()
	more.Finalizers = append(more.Finalizers, "example.com/other")
	_, err = maps.Update(j, more, metav1.UpdateOptions{})
	j.refused("another finalizer", err, apierrors.IsInvalid,
		`metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/other"}`)
	ending.Finalizers = nil
	last, err := maps.Update(j, ending, metav1.UpdateOptions{})
	j.must(err)
	j.equal("the name of what is gone", last.Name, "held")
	_, err = maps.Get(j, "held", metav1.GetOptions{})
	j.refused("what is gone", err, apierrors.IsNotFound, `configmaps "held" not found`)
}

// An eviction asks the budgets of a pod.
func evictions(j *journey) {
	labels := map[string]string{"app": "evicted"}
	pods := j.kube.CoreV1().Pods(j.namespace)
	_, err := pods.Create(j, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "evicted", Labels: labels},
		Spec: corev1.PodSpec{
			NodeName:   "none-such",
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	j.must(err)
	pod, err := pods.Get(j, "evicted", metav1.GetOptions{})
	j.must(err)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = pods.UpdateStatus(j, pod, metav1.UpdateOptions{})
	j.must(err)
	least := intstr.FromInt32(1)
	budgets := j.kube.PolicyV1().PodDisruptionBudgets(j.namespace)
	budget, err := budgets.Create(j, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	j.must(err)
	j.until("the budget has been counted", func() bool {
		now, err := budgets.Get(j, "keep", metav1.GetOptions{})
		j.must(err)
		return now.Status.ObservedGeneration == budget.Generation && now.Status.CurrentHealthy == 1
	})
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: j.namespace}}
	err = pods.EvictV1(j, eviction)
	j.refused("an eviction that the budget forbids", err, apierrors.IsTooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.")
	j.that(apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), "the budget is not named: %#v", err)
	j.must(budgets.Delete(j, "keep", metav1.DeleteOptions{}))
	none := int64(0)
	eviction.DeleteOptions = &metav1.DeleteOptions{GracePeriodSeconds: &none}
	j.must(pods.EvictV1(j, eviction))
	err = pods.EvictV1(j, eviction)
	j.refused("an eviction of none", err, apierrors.IsNotFound, `pods "evicted" not found`)
}

// Scales of several kinds through one client.
func scales(j *journey) {
	_, err := j.kube.AppsV1().Deployments(j.namespace).Create(j, webDeployment("web"), metav1.CreateOptions{})
	j.must(err)
	web := webDeployment("set")
	_, err = j.kube.AppsV1().ReplicaSets(j.namespace).Create(j, &appsv1.ReplicaSet{
		ObjectMeta: web.ObjectMeta,
		Spec:       appsv1.ReplicaSetSpec{Replicas: web.Spec.Replicas, Selector: web.Spec.Selector, Template: web.Spec.Template},
	}, metav1.CreateOptions{})
	j.must(err)
	_, err = j.kube.CoreV1().ReplicationControllers(j.namespace).Create(j, &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "controller"},
		Spec:       corev1.ReplicationControllerSpec{Replicas: web.Spec.Replicas, Selector: map[string]string{"app": "c"}, Template: webTemplate("c")},
	}, metav1.CreateOptions{})
	j.must(err)
	j.scaleAll(map[string]string{"deployments.apps": "web", "replicasets.apps": "set", "replicationcontrollers": "controller"})
	j.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		typed, err := j.kube.AppsV1().Deployments(j.namespace).GetScale(j, "web", metav1.GetOptions{})
		j.must(err)
		typed.Spec.Replicas = 0
		_, err = j.kube.AppsV1().Deployments(j.namespace).UpdateScale(j, "web", typed, metav1.UpdateOptions{})
		return err
	}))
}

func webTemplate(name string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}
