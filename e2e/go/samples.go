package main

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pointer[T any](value T) *T { return &value }

// Objects as Go programs make them, with little in them: what is left out is the server's to fill in. They have no names.
func samples(namespace string) []runtime.Object {
	return append(append(coreSamples(), workloadSamples()...), append(networkSamples(namespace), policySamples(namespace)...)...)
}

func coreSamples() []runtime.Object {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return []runtime.Object{
		&corev1.ConfigMap{Data: map[string]string{"a": "b", "empty": ""}, BinaryData: map[string][]byte{"c": {1, 2}}},
		&corev1.Secret{StringData: map[string]string{"a": "b"}, Data: map[string][]byte{"c": {0}}},
		&corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}}},
		&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}},
		&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81, Protocol: corev1.ProtocolUDP}}}},
		&corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.9.9.9"}}, Ports: []corev1.EndpointPort{{Port: 80}}}}},
		&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size},
			StorageClassName: pointer("")}},
		&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/none"}}}},
		&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePersistentVolumeClaim, Max: size}}}},
		&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/replicationcontrollers": resource.MustParse("1k")}}},
		&corev1.ServiceAccount{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}}},
		&corev1.PodTemplate{Template: *webTemplate("t")},
		&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Replicas: pointer(int32(0)), Template: webTemplate("rc")}},
		&corev1.Pod{Spec: fullPod()},
		&corev1.Pod{Spec: corev1.PodSpec{AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}}, SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/wait"}}}},
		&corev1.Node{},
		&corev1.Namespace{},
		&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: pointer(""), RenewTime: &metav1.MicroTime{Time: time.UnixMicro(1_700_000_000_123_456)}}},
		&resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}}}},
		&resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}}}}}},
	}
}

// A pod with a little of everything that has defaults of its own.
func fullPod() corev1.PodSpec {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	return corev1.PodSpec{
		// the name of its volume is made up
		AutomountServiceAccountToken: new(bool),

		SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/wait"}},
		InitContainers:  []corev1.Container{{Name: "init", Image: "i:latest", RestartPolicy: pointer(corev1.ContainerRestartPolicyAlways)}},
		Containers: []corev1.Container{{
			Name: "main", Image: "i@sha256:0123456789012345678901234567890123456789012345678901234567890123",
			Ports:         []corev1.ContainerPort{{ContainerPort: 80}},
			LivenessProbe: probe, ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}},
			Lifecycle:       &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 0}}},
			Resources:       corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.10"), corev1.ResourceMemory: resource.MustParse("1024Ki")}},
			Env:             []corev1.EnvVar{{Name: "E", Value: ""}, {Name: "F", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
			VolumeMounts:    []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp", ReadOnly: false}},
			SecurityContext: &corev1.SecurityContext{RunAsUser: pointer(int64(0)), Privileged: pointer(false)},
		}},
		Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: pointer(resource.MustParse("100M"))}}},
			{Name: "map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}}},
			{Name: "none", VolumeSource: corev1.VolumeSource{}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "k", WhenUnsatisfiable: corev1.DoNotSchedule}},
	}
}

func workloadSamples() []runtime.Object {
	web := webDeployment("web")
	once := webTemplate("once")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	none := pointer(int32(0))
	return []runtime.Object{
		&appsv1.Deployment{Spec: web.Spec},
		&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: none, Selector: web.Spec.Selector, Template: web.Spec.Template}},
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: none, Selector: web.Spec.Selector, Template: web.Spec.Template, ServiceName: "s",
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}}},
		&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: web.Spec.Selector, Template: corev1.PodTemplateSpec{ObjectMeta: web.Spec.Template.ObjectMeta,
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"none": "such"}, Containers: web.Spec.Template.Spec.Containers}}}},
		&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"a":[1,null]}`)}, Revision: 1},
		&batchv1.Job{Spec: batchv1.JobSpec{Template: *once, Suspend: pointer(true)}},
		&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: "@yearly", Suspend: pointer(true), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: *once}}}},
		&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "none", APIVersion: "apps/v1"},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: none}}}},
		&autoscalingv1.HorizontalPodAutoscaler{Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "none"}, TargetCPUUtilizationPercentage: pointer(int32(50))}},
	}
}

func networkSamples(namespace string) []runtime.Object {
	http := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	return []runtime.Object{
		&networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &backend, Rules: []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &http, Backend: backend}}}}}}}},
		&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}, Egress: []networkingv1.NetworkPolicyEgressRule{{
			Ports: []networkingv1.NetworkPolicyPort{{Port: pointer(intstr.FromInt32(53))}}}}}},
		&networkingv1.IngressClass{Spec: networkingv1.IngressClassSpec{Controller: "example.com/none", Parameters: &networkingv1.IngressClassParametersReference{Kind: "K", Name: "n"}}},
		&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}, Conditions: discoveryv1.EndpointConditions{Ready: pointer(false)}}},
			Ports: []discoveryv1.EndpointPort{{Port: pointer(int32(80))}}},
		&eventsv1.Event{EventTime: metav1.MicroTime{Time: time.UnixMicro(1_700_000_000_000_001)}, ReportingController: "example.com/c", ReportingInstance: "i", Action: "A", Reason: "R", Type: "Normal",
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "none"}},
		&corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "none"}, Reason: "R", Type: "Normal", FirstTimestamp: metav1.Unix(1_700_000_000, 0)},
	}
}

func policySamples(namespace string) []runtime.Object {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "nobody"}, {Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}}
	operations := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"none"}}}}
	hook := admissionv1.WebhookClientConfig{URL: pointer("https://127.0.0.1:1/none")}
	never := admissionv1.SideEffectClassNone
	return []runtime.Object{
		&rbacv1.Role{Rules: rules},
		&rbacv1.ClusterRole{Rules: rules},
		&rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: subjects},
		&rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: subjects[:1]},
		&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: pointer(intstr.FromString("0%")), Selector: &metav1.LabelSelector{}}},
		&schedulingv1.PriorityClass{Value: 5},
		&storagev1.StorageClass{Provisioner: "example.com/none"},
		&storagev1.CSIDriver{},
		&storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: "example.com", NodeName: "none", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: pointer("none")}}},
		&nodev1.RuntimeClass{Handler: "none"},
		&flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{}}}}},
		&flowcontrolv1.FlowSchema{Spec: flowcontrolv1.FlowSchemaSpec{PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "catch-all"}}},
		&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{Name: "none.example.com", ClientConfig: hook, Rules: operations, SideEffects: &never, AdmissionReviewVersions: []string{"v1"}}}},
		&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{Name: "none.example.com", ClientConfig: hook, Rules: operations, SideEffects: &never, AdmissionReviewVersions: []string{"v1"}}}},
		&admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: operations[0]}}},
			Validations:      []admissionv1.Validation{{Expression: "true"}}}},
		&admissionv1.ValidatingAdmissionPolicyBinding{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "none", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}},
	}
}
