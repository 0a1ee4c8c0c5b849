package main

import (
	"bytes"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a revision of a DaemonSet keeps is, byte for byte, what Go writes of its template: Kubernetes tells revisions from each other so.
func revisions(j *journey) {
	marks := map[string]string{"b": "set", "a": "daemon"}
	made, err := j.kube.AppsV1().DaemonSets(j.namespace).Create(j, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "revised"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: marks},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: marks},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "image:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
					Env: []corev1.EnvVar{{Name: "Z", Value: "1"}, {Name: "A"}},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	j.must(err)
	written, err := json.Marshal(made)
	j.must(err)
	var raw map[string]map[string]any
	j.must(json.Unmarshal(written, &raw))
	template := raw["spec"]["template"].(map[string]any)
	template["$patch"] = "replace"
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	j.must(err)
	var list *appsv1.ControllerRevisionList
	j.until("there is a revision", func() bool {
		list, err = j.kube.AppsV1().ControllerRevisions(j.namespace).List(j, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(made.Spec.Selector)})
		j.must(err)
		return len(list.Items) == 1
	})
	j.that(bytes.Equal(list.Items[0].Data.Raw, patch), "a revision keeps\n%s\nand Go writes\n%s", list.Items[0].Data.Raw, patch)
}
