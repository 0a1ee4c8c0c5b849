/** Why the kubelet rejects a pod (a rejected PodAdmitResult upstream): `reason` and `message` of the pod's Failed status. */
export interface AdmissionRejection {
  readonly reason: string;
  readonly message: string;
}
