/** The version of Oarlock, and the reported version: that of the Kubernetes whose behavior it implements, then its own. */
export const oarlockVersion = '0.1.0';
export const version = `v1.36.0+oarlock.${oarlockVersion}`;
