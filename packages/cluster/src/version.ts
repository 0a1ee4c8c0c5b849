/** The Kubernetes version whose behaviour this is, then our own. */
export const oarlockVersion = '0.1.0';
export const version = `v1.36.0+oarlock.${oarlockVersion}`;
