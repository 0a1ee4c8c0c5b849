/** Returns the manifest of a pod `hundred` that requests this much CPU. */
export const podWithCpu = (cpu: string): string => `apiVersion: v1
kind: Pod
metadata: { name: hundred, namespace: default }
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: host
      command: [sleep, '3600']
      resources: { requests: { cpu: '${cpu}' } }
`;
