package main

import (
	"fmt"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// What can be listed and watched, in every version that is served.
func (j *journey) watchable() []schema.GroupVersionResource {
	client := discovery.NewDiscoveryClientForConfigOrDie(j.config)
	_, all, err := client.ServerGroupsAndResources()
	j.must(err)
	var found []schema.GroupVersionResource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, all) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		j.must(err)
		for _, resource := range list.APIResources {
			found = append(found, version.WithResource(resource.Name))
		}
	}
	return found
}

// Shared informers of every kind that the client knows, beside dynamic ones and those of metadata: all see the same.
func everyInformer(j *journey) {
	j.fill(3)
	typed := informers.NewSharedInformerFactory(j.kube, 0)
	untyped := dynamicinformer.NewDynamicSharedInformerFactory(j.dynamic, 0)
	light := metadatainformer.NewSharedInformerFactory(j.metadata, 0)
	kinds := j.watchable()
	lists := map[schema.GroupVersionResource][3]func(labels.Selector) (int, string){}
	count := func(indexer cache.Indexer) func(labels.Selector) (int, string) {
		return func(labels.Selector) (int, string) {
			var names []string
			for _, object := range indexer.List() {
				item, err := meta.Accessor(object)
				j.must(err)
				names = append(names, fmt.Sprintf("%s/%s %s %s", item.GetNamespace(), item.GetName(), item.GetUID(), item.GetResourceVersion()))
			}
			sort.Strings(names)
			return len(names), strings.Join(names, "\n")
		}
	}
	var unknown []string
	for _, kind := range kinds {
		var three [3]func(labels.Selector) (int, string)
		if generic, err := typed.ForResource(kind); err == nil {
			three[0] = count(generic.Informer().GetIndexer())
		} else {
			unknown = append(unknown, kind.String())
		}
		three[1] = count(untyped.ForResource(kind).Informer().GetIndexer())
		three[2] = count(light.ForResource(kind).Informer().GetIndexer())
		lists[kind] = three
	}
	typed.StartWithContext(j)
	untyped.Start(j.Done())
	light.Start(j.Done())
	for kind, synced := range typed.WaitForCacheSync(j.Done()) {
		j.that(synced, "the informer of %s does not sync", kind)
	}
	for kind, synced := range untyped.WaitForCacheSync(j.Done()) {
		j.that(synced, "the dynamic informer of %s does not sync", kind)
	}
	for kind, synced := range light.WaitForCacheSync(j.Done()) {
		j.that(synced, "the informer of metadata of %s does not sync", kind)
	}
	for _, name := range unknown {
		j.that(strings.Contains(name, "apiextensions") || strings.Contains(name, "apiregistration") || strings.Contains(name, "example.com"), "client-go knows no %s", name)
	}
	for kind, three := range lists {
		j.until(fmt.Sprintf("informers of %s agree", kind), func() bool {
			_, second := three[1](nil)
			_, third := three[2](nil)
			if three[0] == nil {
				return second == third
			}
			_, first := three[0](nil)
			return first == second && second == third
		})
	}
	fmt.Printf("%d kinds and versions, %d of them typed\n", len(kinds), len(kinds)-len(unknown))
}

// Lists and watches of metadata alone.
func metadataOnly(j *journey) {
	j.fill(4)
	maps := j.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(j.namespace)
	list, err := maps.List(j, metav1.ListOptions{LabelSelector: "filled=yes", Limit: 3})
	j.must(err)
	j.that(len(list.Items) == 3 && list.Continue != "", "%d items", len(list.Items))
	one, err := maps.Get(j, "n-000", metav1.GetOptions{})
	j.must(err)
	full, err := j.kube.CoreV1().ConfigMaps(j.namespace).Get(j, "n-000", metav1.GetOptions{})
	j.must(err)
	j.equal("metadata", one.ObjectMeta, full.ObjectMeta)
	patched, err := maps.Patch(j, "n-000", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	j.must(err)
	j.equal("annotations", patched.Annotations, map[string]string{"a": "b"})
	j.must(maps.Delete(j, "n-001", metav1.DeleteOptions{}))
	j.must(maps.DeleteCollection(j, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "filled=yes"}))
}
