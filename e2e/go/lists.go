package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

func (j *journey) fill(count int) {
	for i := range count {
		made := configMap(fmt.Sprintf("n-%03d", i), nil)
		made.Labels = map[string]string{"filled": "yes", "third": fmt.Sprint(i % 3)}
		_, err := j.kube.CoreV1().ConfigMaps(j.namespace).Create(j, made, metav1.CreateOptions{})
		j.must(err)
	}
}

// Pages, selectors and what a resource version asks for.
func lists(j *journey) {
	j.fill(25)
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	ask := metav1.ListOptions{LabelSelector: "filled=yes"}
	first, err := maps.List(j, metav1.ListOptions{LabelSelector: ask.LabelSelector, Limit: 10})
	j.must(err)
	j.that(len(first.Items) == 10 && first.Continue != "", "%d items, token %q", len(first.Items), first.Continue)
	j.that(first.RemainingItemCount == nil, "a selected page says what remains")
	whole, err := maps.List(j, metav1.ListOptions{Limit: 5})
	j.must(err)
	j.that(whole.RemainingItemCount != nil && *whole.RemainingItemCount >= 20, "what remains is not said")

	j.must(maps.Delete(j, "n-020", metav1.DeleteOptions{}))
	rest, err := maps.List(j, metav1.ListOptions{LabelSelector: ask.LabelSelector, Continue: first.Continue})
	j.must(err)
	j.equal("items of the same moment", len(rest.Items), 15)
	j.equal("its version", rest.ResourceVersion, first.ResourceVersion)
	past, err := maps.List(j, metav1.ListOptions{LabelSelector: ask.LabelSelector, ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	j.must(err)
	j.equal("items of that version", len(past.Items), 25)
	fresh, err := maps.List(j, metav1.ListOptions{LabelSelector: ask.LabelSelector, ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	j.must(err)
	j.that(len(fresh.Items) == 24 || len(fresh.Items) == 25, "%d items not older", len(fresh.Items))
	any, err := maps.List(j, metav1.ListOptions{LabelSelector: "filled=yes,third in (0,1)", ResourceVersion: "0"})
	j.must(err)
	j.that(len(any.Items) >= 16, "%d items of a selector", len(any.Items))

	_, err = maps.List(j, metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	j.refused("a match of no version", err, apierrors.IsInvalid, "resourceVersionMatch is forbidden unless resourceVersion is provided")
	_, err = maps.List(j, metav1.ListOptions{Continue: "nonsense"})
	j.refused("a wrong token", err, apierrors.IsBadRequest, "continue key is not valid")
	_, err = maps.List(j, metav1.ListOptions{Continue: first.Continue, ResourceVersion: first.ResourceVersion})
	j.refused("a token with a version", err, apierrors.IsBadRequest, "specifying resource version is not allowed when using continue")
	_, err = maps.List(j, metav1.ListOptions{FieldSelector: "data.a=b"})
	j.refused("an unknown field", err, apierrors.IsBadRequest, `field label not supported: data.a`)
	one, err := maps.List(j, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "n-003").String()})
	j.must(err)
	j.equal("items of that name", len(one.Items), 1)
	j.paged(ask)
}

func (j *journey) paged(ask metav1.ListOptions) {
	for _, size := range []int64{1, 7, 24, 500} {
		pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return j.kube.CoreV1().ConfigMaps(j.namespace).List(ctx, options)
		})
		pages.PageSize = size
		seen := map[string]bool{}
		j.must(pages.EachListItem(j, ask, func(object runtime.Object) error {
			item, err := meta.Accessor(object)
			j.must(err)
			j.that(!seen[item.GetName()], "%s came twice", item.GetName())
			seen[item.GetName()] = true
			return nil
		}))
		j.equal(fmt.Sprintf("items in pages of %d", size), len(seen), 24)
	}
}

// A collection is deleted by selector, and says what it deleted.
func collections(j *journey) {
	j.fill(9)
	maps := j.kube.CoreV1().ConfigMaps(j.namespace)
	third := labels.SelectorFromSet(labels.Set{"third": "0"}).String()
	j.must(maps.DeleteCollection(j, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{LabelSelector: third}))
	all, err := maps.List(j, metav1.ListOptions{LabelSelector: "filled=yes"})
	j.must(err)
	j.equal("after a dry run", len(all.Items), 9)
	j.must(maps.DeleteCollection(j, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: third}))
	all, err = maps.List(j, metav1.ListOptions{LabelSelector: "filled=yes"})
	j.must(err)
	j.equal("after", len(all.Items), 6)
	deleted := &corev1.ConfigMapList{}
	j.must(j.kube.CoreV1().RESTClient().Delete().Namespace(j.namespace).Resource("configmaps").
		VersionedParams(&metav1.ListOptions{LabelSelector: "third=1"}, metav1.ParameterCodec).Do(j).Into(deleted))
	j.equal("what the answer says was deleted", len(deleted.Items), 3)
}
