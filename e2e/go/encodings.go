package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// A client of one content type for a group and version.
func (j *journey) speaking(contentType string, version schema.GroupVersion) rest.Interface {
	config := rest.CopyConfig(j.config)
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	j.must(err)
	return client
}

// What protobuf says of every object of every kind is what JSON says of it, to the last zero.
func encodings(j *journey) {
	for _, undo := range j.makeSamples() {
		defer undo()
	}
	compared, kinds := 0, 0
	for _, resource := range j.watchable() {
		if !scheme.Scheme.IsVersionRegistered(resource.GroupVersion()) {
			continue
		}
		if resource.Resource == "events" {
			continue // which go on while others are compared
		}
		one := metav1.ListOptions{ResourceVersion: j.version(resource)}
		if one.ResourceVersion != "" {
			one.ResourceVersionMatch = metav1.ResourceVersionMatchExact
		}
		list := func(contentType string) runtime.Object {
			answer, err := j.speaking(contentType, resource.GroupVersion()).Get().Resource(resource.Resource).
				VersionedParams(&one, metav1.ParameterCodec).Do(j).Get()
			j.must(err)
			return answer
		}
		proto, json := list(runtime.ContentTypeProtobuf), list(runtime.ContentTypeJSON)
		protoItems, err := meta.ExtractList(proto)
		j.must(err)
		jsonItems, err := meta.ExtractList(json)
		j.must(err)
		j.equal("how many "+resource.String(), len(protoItems), len(jsonItems))
		for i := range protoItems {
			strip(protoItems[i])
			strip(jsonItems[i])
			j.equal(fmt.Sprintf("%s in protobuf", resource), protoItems[i], jsonItems[i])
			compared++
		}
		if len(protoItems) > 0 {
			kinds++
		}
	}
	fmt.Printf("%d objects of %d kinds and versions\n", compared, kinds)
}

// The version of a list that both formats are asked for.
func (j *journey) version(resource schema.GroupVersionResource) string {
	list, err := j.metadata.Resource(resource).List(j, metav1.ListOptions{Limit: 1})
	j.must(err)
	return list.ResourceVersion
}

// Takes away what has no message in protobuf: kinds of items of lists, and of objects within objects.
func strip(object runtime.Object) {
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if set, is := object.(*appsv1.StatefulSet); is {
		for i := range set.Spec.VolumeClaimTemplates {
			set.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
		}
	}
}

// The same object, sent as JSON and as protobuf by the same typed client, becomes the same: defaults, managers and all.
func defaults(j *journey) {
	mapper := j.kindsOfResources()
	for i, sample := range samples(j.namespace) {
		kinds, _, err := scheme.Scheme.ObjectKinds(sample)
		j.must(err)
		resource, namespaced := mapper(kinds[0])
		made := map[string]runtime.Object{}
		for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
			object := sample.DeepCopyObject()
			accessor, err := meta.Accessor(object)
			j.must(err)
			accessor.SetName(fmt.Sprintf("%s-%d", j.namespace, i))
			client := j.speaking(contentType, kinds[0].GroupVersion())
			request := client.Post().Resource(resource).NamespaceIfScoped(j.namespace, namespaced).
				VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "go"}, metav1.ParameterCodec).Body(object)
			answer, err := request.Do(j).Get()
			if err != nil {
				j.failf("%s as %s: %v", kinds[0], contentType, err)
			}
			settle(answer)
			made[contentType] = answer
		}
		j.equal(fmt.Sprintf("%s made of protobuf", kinds[0]), made[runtime.ContentTypeProtobuf], made[runtime.ContentTypeJSON])
	}
}

// Takes away what two creations may not have in common.
func settle(object runtime.Object) {
	strip(object)
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	accessor.SetUID("")
	accessor.SetCreationTimestamp(metav1.Time{})
	entries := accessor.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	accessor.SetManagedFields(entries)
	// uids are new each time, and a job is known by its own
	if job, is := object.(*batchv1.Job); is {
		job.Spec.Selector, job.Spec.Template.Labels = nil, nil
	}
	// nothing is reserved by a dry run
	if service, is := object.(*corev1.Service); is && service.Spec.ClusterIP != corev1.ClusterIPNone {
		service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	}
}

func (j *journey) kindsOfResources() func(schema.GroupVersionKind) (string, bool) {
	_, all, err := discovery.NewDiscoveryClientForConfigOrDie(j.config).ServerGroupsAndResources()
	j.must(err)
	return func(kind schema.GroupVersionKind) (string, bool) {
		for _, list := range all {
			if list.GroupVersion != kind.GroupVersion().String() {
				continue
			}
			for _, one := range list.APIResources {
				if one.Kind == kind.Kind && contains(one.Verbs, "list") {
					return one.Name, one.Namespaced
				}
			}
		}
		j.failf("%s is not served", kind)
		return "", false
	}
}

// Makes each sample once more, to be read.
func (j *journey) makeSamples() (undo []func()) {
	mapper := j.kindsOfResources()
	for i, sample := range samples(j.namespace) {
		kinds, _, err := scheme.Scheme.ObjectKinds(sample)
		j.must(err)
		resource, namespaced := mapper(kinds[0])
		object := sample.DeepCopyObject()
		accessor, err := meta.Accessor(object)
		j.must(err)
		if accessor.GetName() == "" {
			accessor.SetName(fmt.Sprintf("%s-%d", j.namespace, i))
		}
		client := j.speaking(runtime.ContentTypeProtobuf, kinds[0].GroupVersion())
		err = client.Post().Resource(resource).NamespaceIfScoped(j.namespace, namespaced).Body(object).Do(j).Error()
		if err != nil {
			j.failf("%s: %v", kinds[0], err)
		}
		if !namespaced {
			undo = append(undo, func() { j.must(client.Delete().Resource(resource).Name(accessor.GetName()).Do(j).Error()) })
		}
	}
	return undo
}

// Tables, of the kinds' own columns, in lists and watches, with as much of the objects as is asked for.
func tables(j *journey) {
	j.fill(2)
	config := rest.CopyConfig(j.config)
	config.APIPath = "/api"
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.AcceptContentTypes = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	j.must(err)
	for _, include := range []metav1.IncludeObjectPolicy{metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject} {
		table := &metav1.Table{}
		j.must(client.Get().Namespace(j.namespace).Resource("configmaps").
			VersionedParams(&metav1.ListOptions{LabelSelector: "filled=yes"}, metav1.ParameterCodec).Param("includeObject", string(include)).Do(j).Into(table))
		j.equal("rows", len(table.Rows), 2)
		j.equal("the first columns", []string{table.ColumnDefinitions[0].Name, table.ColumnDefinitions[1].Name}, []string{"Name", "Data"})
		j.equal("the name", table.Rows[0].Cells[0], any("n-000"))
		j.that((len(table.Rows[0].Object.Raw) > 0) == (include != metav1.IncludeNone), "objects under %s", include)
		j.that(table.ResourceVersion != "", "no version")
	}
}
