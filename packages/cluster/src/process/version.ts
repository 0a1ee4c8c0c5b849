/**
 * The version of Oarlock. The next constant is the reported version: the version of Kubernetes whose behavior Oarlock implements, then Oarlock's own.
 */
export const oarlockVersion = '0.1.0';
export const version = `v1.36.0+oarlock.${oarlockVersion}`;
