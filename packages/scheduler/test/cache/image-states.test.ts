import { describe, expect, it } from 'vitest';
import { ImageStates } from '../../src/cache/image-states.ts';

describe('ImageStates', () => {
  const images = (...entries: [string, number][]) => new Map(entries);
  const none = images();

  it('counts the nodes of an image, with the size on the first of them', () => {
    const states = new ImageStates();
    states.replace('a', none, images(['x:1', 10], ['y:1', 1]));
    states.replace('b', none, images(['x:1', 12]));
    expect(states.get('x:1')).toEqual({ sizeBytes: 10, nodeCount: 2 });
    expect(states.get('y:1')).toEqual({ sizeBytes: 1, nodeCount: 1 });
    expect(states.get('z:1')).toBeUndefined();
  });

  it('forgets the images that nodes do not have any more', () => {
    const states = new ImageStates();
    const before = images(['x:1', 10], ['y:1', 1]);
    states.replace('a', none, before);
    states.replace('b', none, before);
    states.replace('a', before, images(['y:1', 2]));
    expect(states.get('x:1')).toEqual({ sizeBytes: 10, nodeCount: 1 });
    states.replace('b', before, none);
    expect(states.get('x:1')).toBeUndefined();
    expect(states.get('y:1')).toEqual({ sizeBytes: 1, nodeCount: 1 });
  });
});
