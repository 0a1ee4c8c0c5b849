import Long from 'long';
import protobuf from 'protobufjs/light.js';

// without this package, which protobufjs searches at run time, identifiers of members lose their last digits
protobuf.util.Long = Long;
protobuf.configure();

/** A 64-bit integer: a number when sent, a `Long` when received. All values except identifiers are below 2^53. */
export type Int64 = number | { toNumber(): number };
export const int = (value: Int64): number => (typeof value === 'number' ? value : value.toNumber());

/** A 64-bit identifier: a `Long`, because identifiers exceed 2^53. */
export interface Identifier {
  toString(): string;
}
export const hexadecimal = (id: Identifier): string => BigInt(id.toString()).toString(16);

export interface Header {
  readonly member_id: Identifier;
  readonly revision: Int64;
}
export interface KeyValue {
  readonly key: Uint8Array;
  readonly create_revision: Int64;
  readonly mod_revision: Int64;
  readonly version: Int64;
  readonly value: Uint8Array;
}

export interface RangeRequest {
  readonly key: Uint8Array;
  readonly range_end?: Uint8Array;
  readonly limit?: number;
  readonly revision?: number;
  readonly keys_only?: boolean;
  readonly count_only?: boolean;
}
export interface RangeResponse {
  readonly header: Header;
  readonly kvs: readonly KeyValue[];
  readonly more: boolean;
  readonly count: Int64;
}
export interface PutRequest {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly lease?: number;
}
export interface Compare {
  readonly result: number;
  readonly target: number;
  readonly key: Uint8Array;
  readonly mod_revision: number;
}
/** Succeeds if the key's mod_revision equals `revision`. The revision 0 means that the key does not exist. */
export const atRevision = (key: Uint8Array, revision: number): Compare => ({ result: 0, target: 2, key, mod_revision: revision });
export interface RequestOp {
  readonly request_range?: RangeRequest;
  readonly request_put?: PutRequest;
  readonly request_delete_range?: { readonly key: Uint8Array };
}
export interface TxnRequest {
  readonly compare: readonly Compare[];
  readonly success: readonly RequestOp[];
  readonly failure: readonly RequestOp[];
}
export interface TxnResponse {
  readonly header: Header;
  readonly succeeded: boolean;
  readonly responses: readonly { readonly response_range?: RangeResponse | null }[];
}
export interface LeaseGrantResponse {
  readonly TTL: Int64;
  readonly error: string;
}
export interface StatusResponse {
  readonly version: string;
  readonly header: Header;
  readonly leader: Identifier;
  readonly isLearner: boolean;
  readonly dbSize: Int64;
  readonly dbSizeInUse: Int64;
  readonly errors: readonly string[];
}

/** An alarm of a member. */
export interface EtcdAlarm {
  readonly memberID: Identifier;
  readonly alarm: number;
}
/** `AlarmRequest.AlarmAction`. */
export const alarmAction = { get: 0, deactivate: 2 } as const;
/** `AlarmType` of a member whose database has reached its quota. */
export const noSpace = 1;

export interface EtcdMember {
  readonly ID: Identifier;
  /** '' until the member has started for the first time. */
  readonly name: string;
  readonly peerURLs: readonly string[];
  readonly clientURLs: readonly string[];
  readonly isLearner: boolean;
}
export interface MembersResponse {
  readonly members: readonly EtcdMember[];
}
export interface SnapshotResponse {
  readonly remaining_bytes: Int64;
  readonly blob: Uint8Array;
}

export interface WatchRequest {
  readonly create_request?: {
    readonly key: Uint8Array;
    readonly range_end: Uint8Array;
    readonly start_revision: number;
    readonly prev_kv: boolean;
    readonly fragment: boolean;
  };
  readonly progress_request?: Readonly<Record<string, never>>;
}
export interface Event {
  readonly type: number;
  readonly kv: KeyValue;
  readonly prev_kv?: KeyValue | null;
}
export const deleted = 1;
export interface WatchResponse {
  readonly header: Header;
  readonly watch_id: Int64;
  readonly created: boolean;
  readonly canceled: boolean;
  readonly compact_revision: Int64;
  readonly cancel_reason: string;
  readonly fragment: boolean;
  readonly events: readonly Event[];
}

const fields = (table: Readonly<Record<string, readonly [number, string, 'repeated'?]>>) => ({
  fields: Object.fromEntries(Object.entries(table).map(([name, [id, type, rule]]) => [name, { id, type, ...(rule && { rule }) }])),
});

// the parts of etcd's v3 API (rpc.proto and kv.proto) that are used; other fields are skipped when received
export const schema = protobuf.Root.fromJSON({
  nested: {
    Header: fields({ member_id: [2, 'uint64'], revision: [3, 'int64'] }),
    KeyValue: fields({
      key: [1, 'bytes'],
      create_revision: [2, 'int64'],
      mod_revision: [3, 'int64'],
      version: [4, 'int64'],
      value: [5, 'bytes'],
    }),
    RangeRequest: fields({
      key: [1, 'bytes'],
      range_end: [2, 'bytes'],
      limit: [3, 'int64'],
      revision: [4, 'int64'],
      keys_only: [8, 'bool'],
      count_only: [9, 'bool'],
    }),
    RangeResponse: fields({ header: [1, 'Header'], kvs: [2, 'KeyValue', 'repeated'], more: [3, 'bool'], count: [4, 'int64'] }),
    PutRequest: fields({ key: [1, 'bytes'], value: [2, 'bytes'], lease: [3, 'int64'] }),
    PutResponse: fields({ header: [1, 'Header'] }),
    DeleteRangeRequest: fields({ key: [1, 'bytes'] }),
    Compare: fields({ result: [1, 'int32'], target: [2, 'int32'], key: [3, 'bytes'], mod_revision: [6, 'int64'] }),
    RequestOp: fields({
      request_range: [1, 'RangeRequest'],
      request_put: [2, 'PutRequest'],
      request_delete_range: [3, 'DeleteRangeRequest'],
    }),
    ResponseOp: fields({ response_range: [1, 'RangeResponse'] }),
    TxnRequest: fields({
      compare: [1, 'Compare', 'repeated'],
      success: [2, 'RequestOp', 'repeated'],
      failure: [3, 'RequestOp', 'repeated'],
    }),
    TxnResponse: fields({ header: [1, 'Header'], succeeded: [2, 'bool'], responses: [3, 'ResponseOp', 'repeated'] }),
    CompactionRequest: fields({ revision: [1, 'int64'] }),
    CompactionResponse: fields({ header: [1, 'Header'] }),
    LeaseGrantRequest: fields({ TTL: [1, 'int64'], ID: [2, 'int64'] }),
    LeaseGrantResponse: fields({ TTL: [3, 'int64'], error: [4, 'string'] }),
    StatusRequest: fields({}),
    StatusResponse: fields({
      header: [1, 'Header'],
      version: [2, 'string'],
      dbSize: [3, 'int64'],
      leader: [4, 'uint64'],
      errors: [8, 'string', 'repeated'],
      dbSizeInUse: [9, 'int64'],
      isLearner: [10, 'bool'],
    }),
    SnapshotRequest: fields({}),
    SnapshotResponse: fields({ remaining_bytes: [2, 'uint64'], blob: [3, 'bytes'] }),
    AlarmRequest: fields({ action: [1, 'int32'], memberID: [2, 'uint64'], alarm: [3, 'int32'] }),
    AlarmMember: fields({ memberID: [1, 'uint64'], alarm: [2, 'int32'] }),
    AlarmResponse: fields({ alarms: [2, 'AlarmMember', 'repeated'] }),
    DefragmentRequest: fields({}),
    DefragmentResponse: fields({}),
    Member: fields({
      ID: [1, 'uint64'],
      name: [2, 'string'],
      peerURLs: [3, 'string', 'repeated'],
      clientURLs: [4, 'string', 'repeated'],
      isLearner: [5, 'bool'],
    }),
    MemberListRequest: fields({}),
    MemberAddRequest: fields({ peerURLs: [1, 'string', 'repeated'], isLearner: [2, 'bool'] }),
    MemberRequest: fields({ ID: [1, 'uint64'] }),
    MemberUpdateRequest: fields({ ID: [1, 'uint64'], peerURLs: [2, 'string', 'repeated'] }),
    MembersResponse: fields({ members: [2, 'Member', 'repeated'] }),
    MemberAddResponse: fields({ members: [3, 'Member', 'repeated'] }),
    WatchCreateRequest: fields({
      key: [1, 'bytes'],
      range_end: [2, 'bytes'],
      start_revision: [3, 'int64'],
      prev_kv: [6, 'bool'],
      fragment: [8, 'bool'],
    }),
    WatchProgressRequest: fields({}),
    WatchRequest: fields({ create_request: [1, 'WatchCreateRequest'], progress_request: [3, 'WatchProgressRequest'] }),
    Event: fields({ type: [1, 'int32'], kv: [2, 'KeyValue'], prev_kv: [3, 'KeyValue'] }),
    WatchResponse: fields({
      header: [1, 'Header'],
      watch_id: [2, 'int64'],
      created: [3, 'bool'],
      canceled: [4, 'bool'],
      compact_revision: [5, 'int64'],
      cancel_reason: [6, 'string'],
      fragment: [7, 'bool'],
      events: [11, 'Event', 'repeated'],
    }),
  },
});

/** One method of etcd's API: its path and the encoding of its messages. */
export interface Rpc<Q, S> {
  readonly path: string;
  encode(request: Q): Uint8Array;
  decode(response: Uint8Array): S;
}

const rpc = <Q, S>(path: string, request: string, response: string): Rpc<Q, S> => {
  const [requestType, responseType] = [schema.lookupType(request), schema.lookupType(response)];
  return {
    path: `/etcdserverpb.${path}`,
    encode: (message) => requestType.encode(message as Record<string, unknown>).finish(),
    decode: (bytes) => responseType.decode(bytes) as unknown as S,
  };
};

export const rpcs = {
  range: rpc<RangeRequest, RangeResponse>('KV/Range', 'RangeRequest', 'RangeResponse'),
  put: rpc<PutRequest, { readonly header: Header }>('KV/Put', 'PutRequest', 'PutResponse'),
  txn: rpc<TxnRequest, TxnResponse>('KV/Txn', 'TxnRequest', 'TxnResponse'),
  compact: rpc<{ readonly revision: number }, unknown>('KV/Compact', 'CompactionRequest', 'CompactionResponse'),
  leaseGrant: rpc<{ readonly TTL: number; readonly ID: number }, LeaseGrantResponse>(
    'Lease/LeaseGrant',
    'LeaseGrantRequest',
    'LeaseGrantResponse',
  ),
  status: rpc<Readonly<Record<string, never>>, StatusResponse>('Maintenance/Status', 'StatusRequest', 'StatusResponse'),
  defragment: rpc<Readonly<Record<string, never>>, unknown>('Maintenance/Defragment', 'DefragmentRequest', 'DefragmentResponse'),
  alarm: rpc<{ readonly action: number } & Partial<EtcdAlarm>, { readonly alarms: readonly EtcdAlarm[] }>(
    'Maintenance/Alarm',
    'AlarmRequest',
    'AlarmResponse',
  ),
  snapshot: rpc<Readonly<Record<string, never>>, SnapshotResponse>('Maintenance/Snapshot', 'SnapshotRequest', 'SnapshotResponse'),
  memberList: rpc<Readonly<Record<string, never>>, MembersResponse>('Cluster/MemberList', 'MemberListRequest', 'MembersResponse'),
  memberAdd: rpc<{ readonly peerURLs: readonly string[]; readonly isLearner: boolean }, MembersResponse>(
    'Cluster/MemberAdd',
    'MemberAddRequest',
    'MemberAddResponse',
  ),
  memberRemove: rpc<{ readonly ID: Identifier }, MembersResponse>('Cluster/MemberRemove', 'MemberRequest', 'MembersResponse'),
  memberPromote: rpc<{ readonly ID: Identifier }, MembersResponse>('Cluster/MemberPromote', 'MemberRequest', 'MembersResponse'),
  memberUpdate: rpc<{ readonly ID: Identifier; readonly peerURLs: readonly string[] }, MembersResponse>(
    'Cluster/MemberUpdate',
    'MemberUpdateRequest',
    'MembersResponse',
  ),
  watch: rpc<WatchRequest, WatchResponse>('Watch/Watch', 'WatchRequest', 'WatchResponse'),
};
