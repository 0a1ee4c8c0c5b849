/** The number of minor versions by which two servers of a cluster may differ, as for kube-apiserver. */
const maxServerSkew = 1;
/** The number of minor versions by which a node may be older than a server, as for the kubelet. */
const maxNodeSkew = 3;

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

/** Returns a sentence if a node of the version `node` does not work with a server of the version `server`, otherwise undefined. */
export function nodeSkew(node: string, server: string): string | undefined {
  const [nodeMinor, serverMinor] = [minorOf(node), minorOf(server)];
  if (nodeMinor === undefined || serverMinor === undefined) return undefined;
  if (nodeMinor > serverMinor) return `the node is ${node}, and the server is ${server}: a node must not be newer than a server`;
  return serverMinor - nodeMinor > maxNodeSkew
    ? `the node is ${node}, and the server is ${server}: a node is at most ${maxNodeSkew} minor versions older than a server`
    : undefined;
}

interface Versioned {
  readonly name: string;
  readonly version: string;
}

/** Returns a sentence for each server and node whose version the version skew policy of Kubernetes does not support beside the others. */
export function skewNotices(servers: readonly Versioned[], nodes: readonly Versioned[]): readonly string[] {
  const ordered = servers
    .flatMap((server) => {
      const minor = minorOf(server.version);
      return minor === undefined ? [] : [{ ...server, minor }];
    })
    .sort((a, b) => a.minor - b.minor);
  const [oldest, newest] = [ordered[0], ordered.at(-1)];
  if (oldest === undefined || newest === undefined) return [];
  const apart =
    newest.minor - oldest.minor > maxServerSkew
      ? [
          `the server ${oldest.name} is ${oldest.version}, and ${newest.name} is ${newest.version}: servers differ by at most one minor version`,
        ]
      : [];
  // a node changes servers: it must work with each of them
  const unsupported = nodes.flatMap(({ name, version }) => {
    const skew = nodeSkew(version, oldest.version) ?? nodeSkew(version, newest.version);
    return skew === undefined ? [] : [`${name}: ${skew}`];
  });
  return [...apart, ...unsupported];
}
