/** Rules of 1.36 that are not implemented: the function of upstream and the rule. docs/conformance.md lists them. */
export const missingRules: readonly string[] = [
  'validateDeviceAttribute, validateDeviceCapacity, validateCounter: values of devices',
  'validateDeviceClassSpec: `extendedResourceName`',
  'ValidateFlowSchemaSpec: `distinguisherMethod`',
  'validateLifecycle: `stopSignal` and the operating system',
  'validateOverhead: the path of a bad resource name',
  'validateHorizontalPodAutoscalerSpec: `minReplicas` 0 needs an object or external metric (alpha)',
  'ValidateEndpointSlice: hints without a zone',
  'ValidateResourceClaimTemplate: the metadata of its claims',
  'ValidateAppArmorProfileFormat: annotations that differ from fields',
];
