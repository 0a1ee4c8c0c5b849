package main

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// Creates, reads, replaces and deletes with a typed client.
func typed(j *journey) {
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	made, err := maps.Create(j, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "made-", Labels: map[string]string{"a": "b"}},
		BinaryData: map[string][]byte{"bytes": {0, 1, 255}, "none": {}},
		Immutable:  new(bool),
	}, metav1.CreateOptions{FieldManager: "go"})
	j.must(err)
	j.that(len(made.Name) == len("made-")+5, "the name made is %q", made.Name)
	j.equal("bytes", made.BinaryData, map[string][]byte{"bytes": {0, 1, 255}, "none": {}})
	j.that(made.Immutable != nil && !*made.Immutable, "immutable: false was dropped")
	j.equal("kinds of typed answers", made.TypeMeta, metav1.TypeMeta{Kind: "", APIVersion: ""})
	read, err := maps.Get(j, made.Name, metav1.GetOptions{})
	j.must(err)
	j.equal("what was read", read, made)

	changed := read.DeepCopy()
	changed.Labels["a"] = "c"
	changed, err = maps.Update(j, changed, metav1.UpdateOptions{})
	j.must(err)
	_, err = maps.Update(j, read, metav1.UpdateOptions{})
	j.refused("a stale update", err, apierrors.IsConflict, "the object has been modified; please apply your changes to the latest version and try again")
	same, err := maps.Update(j, changed, metav1.UpdateOptions{})
	j.must(err)
	j.equal("an update that changes nothing", same, changed)
	j.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := maps.Get(j, made.Name, metav1.GetOptions{})
		j.must(err)
		fresh.Data = map[string]string{"k": "v"}
		_, err = maps.Update(j, fresh, metav1.UpdateOptions{})
		return err
	}))

	dry, err := maps.Create(j, configMap("dry", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	j.must(err)
	j.that(dry.UID != "" && dry.ResourceVersion == "", "a dry run says uid %q and version %q", dry.UID, dry.ResourceVersion)
	_, err = maps.Get(j, "dry", metav1.GetOptions{})
	j.refused("what was never made", err, apierrors.IsNotFound, `configmaps "dry" not found`)

	wrong := types.UID("nobody")
	err = maps.Delete(j, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	j.refused("a deletion of another", err, apierrors.IsConflict, "the UID in the precondition (nobody) does not match the UID in record ("+string(made.UID)+")")
	j.must(maps.Delete(j, made.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))}))
	j.must(j.discardsNothing())
}

// Options of a deletion also travel as JSON, and through HTTP/1.1.
func (j *journey) discardsNothing() error {
	config := rest.CopyConfig(j.config)
	config.TLSClientConfig.NextProtos = []string{"http/1.1"}
	client, err := kubernetes.NewForConfig(config)
	j.must(err)
	maps := client.CoreV1().ConfigMaps(j.namespace)
	_, err = maps.Create(j, configMap("old", nil), metav1.CreateOptions{})
	j.must(err)
	background := metav1.DeletePropagationBackground
	return maps.Delete(j, "old", metav1.DeleteOptions{PropagationPolicy: &background})
}

// Errors have the reason, the details and the words that Go code looks for.
func statusErrors(j *journey) {
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	_, err := maps.Create(j, configMap("one", nil), metav1.CreateOptions{})
	j.must(err)
	_, err = maps.Create(j, configMap("one", nil), metav1.CreateOptions{})
	j.refused("a second one", err, apierrors.IsAlreadyExists, `configmaps "one" already exists`)
	_, err = maps.Create(j, configMap("No_Name", nil), metav1.CreateOptions{})
	j.refused("a wrong name", err, apierrors.IsInvalid, `ConfigMap "No_Name" is invalid: metadata.name: Invalid value: "No_Name": a lowercase RFC 1123 subdomain`)
	_, err = j.kube.CoreV1().ConfigMaps("nowhere-"+j.namespace).Create(j, configMap("one", nil), metav1.CreateOptions{})
	j.refused("a namespace that is not", err, apierrors.IsNotFound, `namespaces "nowhere-`+j.namespace+`" not found`)
	_, err = j.kube.CoreV1().Pods(j.namespace).Create(j, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, metav1.CreateOptions{})
	j.refused("a pod of nothing", err, apierrors.IsInvalid, `Pod "empty" is invalid: spec.containers: Required value`)
	j.that(apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueRequired), "the cause is not named: %#v", err)

	config := rest.CopyConfig(j.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	nobody, err := kubernetes.NewForConfig(config)
	j.must(err)
	_, err = nobody.CoreV1().Secrets(j.namespace).List(j, metav1.ListOptions{})
	j.refused("what nobody may", err, apierrors.IsForbidden,
		`secrets is forbidden: User "nobody" cannot list resource "secrets" in API group "" in the namespace "`+j.namespace+`"`)
	config = rest.AnonymousClientConfig(j.config)
	config.BearerToken = "wrong"
	stranger, err := kubernetes.NewForConfig(config)
	j.must(err)
	_, err = stranger.CoreV1().Secrets(j.namespace).List(j, metav1.ListOptions{})
	j.refused("a wrong token", err, apierrors.IsUnauthorized, "Unauthorized")
}
