/** The result of a pod that the kubelet does not admit (PodAdmitResult upstream): `reason` and `message` of the pod's Failed status. */
export interface AdmissionRejection {
  readonly reason: string;
  readonly message: string;
}
