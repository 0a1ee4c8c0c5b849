package main

import (
	"encoding/json"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
)

func webDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	none := int32(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}, {Name: "side", Image: "side:1"}}},
			},
		},
	}
}

// Every type of patch, with what is computed by the libraries of clients.
func patches(j *journey) {
	deployments := j.kube.AppsV1().Deployments(j.namespace)
	_, err := deployments.Create(j, webDeployment("web"), metav1.CreateOptions{})
	j.must(err)
	patch := func(kind types.PatchType, body string) *appsv1.Deployment {
		done, err := deployments.Patch(j, "web", kind, []byte(body), metav1.PatchOptions{FieldManager: "patches"})
		j.must(err)
		return done
	}
	done := patch(types.JSONPatchType, `[{"op":"test","path":"/spec/replicas","value":0},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"image:2"}]`)
	j.equal("the image", done.Spec.Template.Spec.Containers[0].Image, "image:2")
	done = patch(types.MergePatchType, `{"metadata":{"annotations":{"a":"b","c":null}}}`)
	j.equal("an annotation", done.Annotations["a"], "b")
	done = patch(types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"},{"name":"main","env":[{"name":"E","value":"1"}]}]}}}}`)
	j.equal("containers", len(done.Spec.Template.Spec.Containers), 1)

	// as controllers patch: from two objects
	next := done.DeepCopy()
	next.Spec.Template.Spec.Containers[0].Env = append(next.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "F", Value: "2"})
	next.Spec.Template.Spec.Containers = append(next.Spec.Template.Spec.Containers, corev1.Container{Name: "more", Image: "more"})
	before, err := json.Marshal(done)
	j.must(err)
	after, err := json.Marshal(next)
	j.must(err)
	body, err := strategicpatch.CreateTwoWayMergePatch(before, after, appsv1.Deployment{})
	j.must(err)
	done = patch(types.StrategicMergePatchType, string(body))
	local, err := strategicpatch.StrategicMergePatch(before, body, appsv1.Deployment{})
	j.must(err)
	var expected appsv1.Deployment
	j.must(json.Unmarshal(local, &expected))
	for i, container := range done.Spec.Template.Spec.Containers {
		j.equal("env of a container", container.Env, expected.Spec.Template.Spec.Containers[i].Env)
		j.equal("its name", container.Name, expected.Spec.Template.Spec.Containers[i].Name)
	}
	_, err = deployments.Patch(j, "web", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":5}]`), metav1.PatchOptions{})
	j.refused("a test that fails", err, apierrors.IsInvalid, "the server rejected our request due to an error in our request")
	_, err = deployments.Patch(j, "web", types.MergePatchType, []byte(`{"metadata":{"uid":"other"}}`), metav1.PatchOptions{})
	j.refused("another uid", err, apierrors.IsInvalid, `metadata.uid: Invalid value: "other": field is immutable`)
	_, err = deployments.Patch(j, "web", types.MergePatchType, []byte(`{"spec":{"nothing":1}}`), metav1.PatchOptions{FieldValidation: "Strict"})
	j.refused("a field that is not", err, apierrors.IsInvalid, `unknown field "spec.nothing"`)
}

// Typed apply: managers, conflicts, what is given up, and what an apply configuration extracts.
func typedApply(j *journey) {
	deployments := j.kube.AppsV1().Deployments(j.namespace)
	config := func(image string) *applyapps.DeploymentApplyConfiguration {
		return applyapps.Deployment("web", j.namespace).
			WithLabels(map[string]string{"l": "1"}).
			WithSpec(applyapps.DeploymentSpec().
				WithSelector(applymeta.LabelSelector().WithMatchLabels(map[string]string{"app": "web"})).
				WithTemplate(applycore.PodTemplateSpec().
					WithLabels(map[string]string{"app": "web"}).
					WithSpec(applycore.PodSpec().WithContainers(
						applycore.Container().WithName("main").WithImage(image).WithPorts(applycore.ContainerPort().WithContainerPort(80))))))
	}
	_, err := deployments.Apply(j, config("image:1"), metav1.ApplyOptions{FieldManager: "one"})
	j.must(err)
	j.until("the controller is done and an apply that changes nothing is no write", func() bool {
		before, err := deployments.Get(j, "web", metav1.GetOptions{})
		j.must(err)
		again, err := deployments.Apply(j, config("image:1"), metav1.ApplyOptions{FieldManager: "one"})
		j.must(err)
		return reflect.DeepEqual(before, again)
	})
	_, err = deployments.Apply(j, config("image:2"), metav1.ApplyOptions{FieldManager: "two"})
	j.refused("what another manages", err, apierrors.IsConflict,
		`Apply failed with 1 conflict: conflict with "one": .spec.template.spec.containers[name="main"].image`)
	j.that(apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "the cause is not named")
	forced, err := deployments.Apply(j, config("image:2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	j.must(err)
	j.equal("the image", forced.Spec.Template.Spec.Containers[0].Image, "image:2")

	mine, err := applyapps.ExtractDeployment(forced, "two")
	j.must(err)
	j.equal("what is extracted", mine, config("image:2"))
	rest, err := applyapps.ExtractDeployment(forced, "one")
	j.must(err)
	j.that(rest.Spec.Template.Spec.Containers[0].Image == nil, "the image is still of the first")
	// who applies no more of it gives it up
	given, err := deployments.Apply(j, applyapps.Deployment("web", j.namespace).WithSpec(mine.Spec), metav1.ApplyOptions{FieldManager: "two"})
	j.must(err)
	j.equal("labels that the first still has", given.Labels, map[string]string{"l": "1"})
	given, err = deployments.Apply(j, applyapps.Deployment("web", j.namespace).WithSpec(rest.Spec), metav1.ApplyOptions{FieldManager: "one"})
	j.must(err)
	j.equal("labels of nobody", len(given.Labels), 0)
	_, err = deployments.Apply(j, config("image:1"), metav1.ApplyOptions{})
	j.refused("nobody's apply", err, apierrors.IsInvalid, "fieldManager: Required value: is required for apply patch")
}

// Status is applied beside the spec, and a scale by its own manager.
func applyStatus(j *journey) {
	pods := j.kube.CoreV1().Pods(j.namespace)
	_, err := pods.Create(j, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "gated"},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/wait"}},
			Containers:      []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	j.must(err)
	condition := applycore.PodCondition().WithType("example.com/Ready").WithStatus(corev1.ConditionTrue).WithReason("Said").WithMessage("so")
	done, err := pods.ApplyStatus(j, applycore.Pod("gated", j.namespace).WithStatus(applycore.PodStatus().WithConditions(condition)),
		metav1.ApplyOptions{FieldManager: "status"})
	j.must(err)
	taken, err := applycore.ExtractPodFrom(done, "status", "status")
	j.must(err)
	j.equal("the condition extracted", taken.Status.Conditions, []applycore.PodConditionApplyConfiguration{*condition})
	for _, entry := range done.ManagedFields {
		if entry.Manager == "status" {
			j.equal("the subresource of the manager", entry.Subresource, "status")
			j.equal("its operation", entry.Operation, metav1.ManagedFieldsOperationApply)
		}
	}
	_, err = j.kube.CoreV1().Namespaces().Apply(j, applycore.Namespace(j.namespace).WithLabels(map[string]string{"by": "apply"}), metav1.ApplyOptions{FieldManager: "status"})
	j.must(err)
}
