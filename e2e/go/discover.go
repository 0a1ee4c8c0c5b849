package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/retry"
)

// Aggregated and legacy discovery say the same, through caches on disk and in memory.
func discover(j *journey) {
	client := discovery.NewDiscoveryClientForConfigOrDie(j.config)
	version, err := client.ServerVersion()
	j.must(err)
	j.that(version.Major == "1" && version.Minor == "36", "the version is %s", version)
	groups, lists, failed, err := client.GroupsAndMaybeResources()
	j.must(err)
	j.that(lists != nil && len(failed) == 0, "discovery is not aggregated, or incomplete: %v", failed)
	legacy := discovery.NewDiscoveryClientForConfigOrDie(j.config)
	legacy.UseLegacyDiscovery = true
	oldGroups, oldLists, err := legacy.ServerGroupsAndResources()
	j.must(err)
	newGroups, newLists, err := client.ServerGroupsAndResources()
	j.must(err)
	j.equal("groups", groupNames(newGroups), groupNames(oldGroups))
	j.equal("groups that came at once", len(groups.Groups), len(newGroups))
	j.equal("resources", resourceNames(newLists), resourceNames(oldLists))

	preferred, err := client.ServerPreferredResources()
	j.must(err)
	j.that(len(preferred) > 15, "%d groups have preferred resources", len(preferred))
	dir, err := os.MkdirTemp("", "discovery-")
	j.must(err)
	defer os.RemoveAll(dir)
	cached, err := disk.NewCachedDiscoveryClientForConfig(j.config, filepath.Join(dir, "d"), filepath.Join(dir, "http"), time.Hour)
	j.must(err)
	for range 2 {
		_, _, err = cached.ServerGroupsAndResources()
		j.must(err)
	}
	j.that(cached.Fresh(), "the cache is not fresh")
	cached.Invalidate()
	_, again, err := cached.ServerGroupsAndResources()
	j.must(err)
	j.equal("resources after the cache was thrown away", resourceNames(again), resourceNames(newLists))

	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), client, nil)
	for short, long := range map[string]string{"po": "pods", "deploy": "deployments", "sts": "statefulsets", "crd": "customresourcedefinitions", "netpol": "networkpolicies"} {
		found, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: short})
		j.must(err)
		j.equal("what "+short+" is short for", found.Resource, long)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"})
	j.must(err)
	j.equal("the preferred version", mapping.Resource.Version, "v2")
}

func groupNames(groups []*metav1.APIGroup) []string {
	var names []string
	for _, group := range groups {
		for _, version := range group.Versions {
			names = append(names, fmt.Sprintf("%s, preferred %s", version.GroupVersion, group.PreferredVersion.GroupVersion))
		}
	}
	sort.Strings(names)
	return names
}

func resourceNames(lists []*metav1.APIResourceList) []string {
	var names []string
	for _, list := range lists {
		for _, one := range list.APIResources {
			// only one of the two ways says how it is stored
			one.StorageVersionHash = ""
			// which is that of the list where nothing is said
			if list.GroupVersion == (schema.GroupVersion{Group: one.Group, Version: one.Version}).String() {
				one.Group, one.Version = "", ""
			}
			// and only one tells it of subresources, as its client makes it up
			if strings.Contains(one.Name, "/") {
				one.SingularName = ""
			}
			sort.Strings(one.Verbs)
			names = append(names, fmt.Sprintf("%s: %s", list.GroupVersion, one.String()))
		}
	}
	sort.Strings(names)
	return names
}

// Every group and version of OpenAPI v3, and the whole of v2.
func openAPI(j *journey) {
	client := discovery.NewDiscoveryClientForConfigOrDie(j.config)
	root := openapi3.NewRoot(client.OpenAPIV3())
	versions, err := root.GroupVersions()
	j.must(err)
	groups, err := client.ServerGroups()
	j.must(err)
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			parsed, err := schema.ParseGroupVersion(version.GroupVersion)
			j.must(err)
			j.that(contains(versions, parsed), "%s has no document", parsed)
			document, err := root.GVSpec(parsed)
			j.must(err)
			j.that(len(document.Paths.Paths) > 0 && len(document.Components.Schemas) > 0, "that of %s is empty", parsed)
		}
	}
	whole, err := client.OpenAPISchema()
	j.must(err)
	j.that(len(whole.GetDefinitions().GetAdditionalProperties()) > 500, "v2 has few definitions")
}

func contains[T comparable](list []T, one T) bool {
	for _, other := range list {
		if other == one {
			return true
		}
	}
	return false
}

func (j *journey) scaleAll(targets map[string]string) {
	client := discovery.NewDiscoveryClientForConfigOrDie(j.config)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	scaler, err := scale.NewForConfig(j.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(client))
	j.must(err)
	for resource, name := range targets {
		what := schema.ParseGroupResource(resource)
		now, err := scaler.Scales(j.namespace).Get(j, what, name, metav1.GetOptions{})
		j.must(err)
		j.equal("replicas of "+resource, now.Spec.Replicas, int32(0))
		j.that(now.Status.Selector != "", "the scale of %s has no selector", resource)
		j.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now, err = scaler.Scales(j.namespace).Get(j, what, name, metav1.GetOptions{})
			j.must(err)
			now.Spec.Replicas = 2
			now, err = scaler.Scales(j.namespace).Update(j, what, now, metav1.UpdateOptions{})
			return err
		}))
		j.equal("replicas of "+resource, now.Spec.Replicas, int32(2))
		full, err := mapper.ResourceFor(what.WithVersion(""))
		j.must(err)
		now, err = scaler.Scales(j.namespace).Patch(j, full, name, types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
		j.must(err)
		j.equal("replicas of "+resource, now.Spec.Replicas, int32(1))
	}
}
