// The messages of containerd's services (containerd.services.*) for the event stream and exec processes: field -> "number type".
export const containerdMessages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Timestamp: { seconds: '1 int64', nanos: '2 int32' },
  Any: { typeUrl: '1 string', value: '2 bytes' },
  Empty: {},

  SubscribeRequest: { filters: '1 repeated string' },
  ForwardRequest: { envelope: '1 Envelope' },
  Envelope: { timestamp: '1 Timestamp', namespace: '2 string', topic: '3 string', event: '4 Any' },

  TaskStart: { containerId: '1 string', pid: '2 uint32' },
  TaskOOM: { containerId: '1 string' },
  TaskDelete: { containerId: '1 string', pid: '2 uint32', exitStatus: '3 uint32', exitedAt: '4 Timestamp', id: '5 string' },
  TaskExit: { containerId: '1 string', id: '2 string', pid: '3 uint32', exitStatus: '4 uint32', exitedAt: '5 Timestamp' },
  TaskExecAdded: { containerId: '1 string', execId: '2 string' },
  ContainerDelete: { id: '1 string' },

  KillRequest: { containerId: '1 string', execId: '2 string', signal: '3 uint32', all: '4 bool' },
  DeleteProcessRequest: { containerId: '1 string', execId: '2 string' },
  DeleteResponse: { id: '1 string', pid: '2 uint32', exitStatus: '3 uint32', exitedAt: '4 Timestamp' },
};
