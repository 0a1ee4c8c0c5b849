package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// A definition of boats in a group of its own, in two versions.
func boats(group string) *apiextensionsv1.CustomResourceDefinition {
	least := float64(1)
	properties := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {
			Type: "object", Required: []string{"oars"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"oars":     {Type: "integer", Format: "int32", Minimum: &least},
				"colour":   {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}},
				"replicas": {Type: "integer", Format: "int32"},
			},
			XValidations: apiextensionsv1.ValidationRules{{Rule: "self.oars % 2 == 0", Message: "oars come in pairs"}},
		},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"replicas": {Type: "integer", Format: "int32"}, "selector": {Type: "string"},
		}},
	}}
	selector := ".status.selector"
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &properties},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector},
			},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Oars", Type: "integer", JSONPath: ".spec.oars"}},
			SelectableFields:         []apiextensionsv1.SelectableField{{JSONPath: ".spec.colour"}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Kind: "Boat", ShortNames: []string{"bt"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v1beta1", false)},
		},
	}
}

// The group of this run's boats, established.
func (j *journey) establish() string {
	group := j.namespace + ".example.com"
	definitions := j.crds.ApiextensionsV1().CustomResourceDefinitions()
	_, err := definitions.Create(j, boats(group), metav1.CreateOptions{})
	j.must(err)
	j.until("boats are established", func() bool {
		now, err := definitions.Get(j, "boats."+group, metav1.GetOptions{})
		j.must(err)
		for _, condition := range now.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
	return group
}

// Definitions through their own typed client and informers.
func definitions(j *journey) {
	group := j.establish()
	factory := extensionsinformers.NewSharedInformerFactory(j.crds, 0)
	lister := factory.Apiextensions().V1().CustomResourceDefinitions().Lister()
	factory.StartWithContext(j)
	factory.WaitForCacheSync(j.Done())
	cached, err := lister.Get("boats." + group)
	j.must(err)
	read, err := j.crds.ApiextensionsV1().CustomResourceDefinitions().Get(j, "boats."+group, metav1.GetOptions{})
	j.must(err)
	j.equal("what the informer has", cached, read)
	j.equal("names accepted", read.Status.AcceptedNames, apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "boats", Singular: "boat", ShortNames: []string{"bt"}, Kind: "Boat", ListKind: "BoatList",
	})
	j.equal("versions stored", read.Status.StoredVersions, []string{"v1"})
	wrong := boats(group)
	wrong.Spec.Versions[0].Storage = false
	wrong.ResourceVersion = read.ResourceVersion
	_, err = j.crds.ApiextensionsV1().CustomResourceDefinitions().Update(j, wrong, metav1.UpdateOptions{})
	j.refused("no version to store", err, apierrors.IsInvalid, "spec.versions: Invalid value")
	j.must(j.crds.ApiextensionsV1().CustomResourceDefinitions().Delete(j, "boats."+group, metav1.DeleteOptions{}))
	j.until("the informer has lost it", func() bool {
		_, err := lister.Get("boats." + group)
		return apierrors.IsNotFound(err)
	})
}

func boat(group, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Boat", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// Objects of a definition through the dynamic client and its informers.
func customObjects(j *journey) {
	group := j.establish()
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "boats"}
	all := j.dynamic.Resource(resource).Namespace(j.namespace)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(j.dynamic, 0, j.namespace, nil)
	informer := factory.ForResource(resource)
	seen := make(chan string, 100)
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		seen <- object.(*unstructured.Unstructured).GetName()
	}})
	j.must(err)
	factory.Start(j.Done())
	factory.WaitForCacheSync(j.Done())

	made, err := all.Create(j, boat(group, "one", map[string]any{"oars": int64(2), "sails": int64(1)}), metav1.CreateOptions{})
	j.must(err)
	j.equal("what was kept", made.Object["spec"], any(map[string]any{"oars": int64(2), "colour": "red"}))
	j.equal("what the informer saw", receive(j, "the boat", seen), "one")
	_, err = all.Create(j, boat(group, "odd", map[string]any{"oars": int64(3)}), metav1.CreateOptions{})
	j.refused("an odd boat", err, apierrors.IsInvalid, `Boat.`+group+` "odd" is invalid: spec: Invalid value: oars come in pairs`)
	j.that(apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid), "no cause: %v", err)
	_, err = all.Create(j, boat(group, "bad", map[string]any{"oars": "two"}), metav1.CreateOptions{})
	j.refused("a boat of words", err, apierrors.IsInvalid, `spec.oars: Invalid value: "string": spec.oars in body must be of type integer: "string"`)
	_, err = all.Create(j, boat(group, "strict", map[string]any{"oars": int64(2), "sails": int64(1)}), metav1.CreateOptions{FieldValidation: "Strict"})
	j.refused("an unknown field", err, apierrors.IsBadRequest, `strict decoding error: unknown field "spec.sails"`)

	made.Object["status"] = map[string]any{"replicas": int64(4), "selector": "a=b"}
	made, err = all.UpdateStatus(j, made, metav1.UpdateOptions{})
	j.must(err)
	patched, err := all.Patch(j, "one", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	j.must(err)
	j.equal("generations", patched.GetGeneration(), made.GetGeneration()+1)
	scale, err := all.Get(j, "one", metav1.GetOptions{}, "scale")
	j.must(err)
	j.equal("its scale", scale.Object["status"], any(map[string]any{"replicas": int64(4), "selector": "a=b"}))
	applied, err := all.Apply(j, "two", boat(group, "two", map[string]any{"oars": int64(4), "colour": "blue"}), metav1.ApplyOptions{FieldManager: "go"})
	j.must(err)
	j.equal("its manager", applied.GetManagedFields()[0].Manager, "go")
	blue, err := all.List(j, metav1.ListOptions{FieldSelector: "spec.colour=blue"})
	j.must(err)
	j.equal("blue boats", len(blue.Items), 1)
	older, err := j.dynamic.Resource(resource.GroupResource().WithVersion("v1beta1")).Namespace(j.namespace).Get(j, "two", metav1.GetOptions{})
	j.must(err)
	j.equal("its version", older.GetAPIVersion(), group+"/v1beta1")
	j.scaleAll(map[string]string{resource.GroupResource().String(): "one"})
	j.must(j.crds.ApiextensionsV1().CustomResourceDefinitions().Delete(j, "boats."+group, metav1.DeleteOptions{}))
	j.until("boats are gone", func() bool {
		_, err := all.List(j, metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
}
