/** The number of minor versions by which two servers of a cluster may differ, as for kube-apiserver. */
const maxServerSkew = 1;

/** Returns the minor version of a version such as `v1.36.0+oarlock.0.1.0`; undefined for other texts. */
function minorOf(version: string): number | undefined {
  const [, minor] = /^v1\.(\d+)\./.exec(version) ?? [];
  return minor === undefined ? undefined : Number(minor);
}

/** Returns a sentence if a server of the version `own` cannot join servers of the version `cluster`, otherwise undefined. */
export function serverSkew(own: string, cluster: string): string | undefined {
  const [ownMinor, clusterMinor] = [minorOf(own), minorOf(cluster)];
  if (ownMinor === undefined || clusterMinor === undefined || Math.abs(ownMinor - clusterMinor) <= maxServerSkew) return undefined;
  return `this is ${own}, and the cluster is ${cluster}: servers of a cluster differ by at most one minor version`;
}
