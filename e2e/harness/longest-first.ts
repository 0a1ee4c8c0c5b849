import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** By how long they take where that is more than half a minute; it decides nothing but when the last file ends. */
const long = [
  'matrix/three-nodes-calico',
  'failures/kill-nine',
  'conformance/nodes',
  'matrix/docker',
  'matrix/three-nodes-bridge',
  'matrix/process',
  'matrix/containerd',
  'journeys/kubectl.test',
  'failures/node-chaos',
  'journeys/volumes',
  'journeys/plugins',
];

/** Starts the long files first, so that none of them runs alone at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = long.findIndex((path) => moduleId.includes(`/e2e/${path}`));
      return at < 0 ? long.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
