/** Rules of 1.36 that are not implemented: the function of upstream and the rule. docs/conformance.md lists them. */
export const missingRules: readonly string[] = [
  'validateHorizontalPodAutoscalerSpec: `minReplicas` 0 needs an object or external metric (alpha)',
  'ValidatePodCertificateRequestStatusUpdate: comments (RFC 5322) in e-mail addresses of the certificate are invalid (opt-in)',
];
