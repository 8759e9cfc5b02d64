package keyserver

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients send the header grpc-accept-encoding: gzip
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"keypool/kgs/kgstest"
)

// grpcClient is a gRPC client that does not use the generated code. It reads the definition of the
// service from the reflection service.
type grpcClient struct {
	*grpc.ClientConn
	t       *testing.T
	service protoreflect.ServiceDescriptor
}

func dial(t *testing.T, s *service) *grpcClient {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(s.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &grpcClient{ClientConn: conn, t: t}
	c.reflect("keypool.kgs.v1.KeyService")
	return c
}

// reflect reads the definition of the service from the server.
func (c *grpcClient) reflect(name string) {
	c.t.Helper()
	stream, err := reflectpb.NewServerReflectionClient(c).ServerReflectionInfo(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	err = stream.Send(&reflectpb.ServerReflectionRequest{
		MessageRequest: &reflectpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || stream.CloseSend() != nil {
		c.t.Fatal(err)
	}
	for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			c.t.Fatal(err)
		}
		if len(file.GetService()) == 0 {
			continue // one of Google's own types
		}
		known, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
		if err != nil {
			c.t.Fatal(err)
		}
		c.service = known.Services().ByName(protoreflect.FullName(name).Name())
	}
	if c.service == nil {
		c.t.Fatalf("reflection has no service %s: %v", name, answer)
	}
}

// call calls a procedure. fill sets the fields of the request.
func (c *grpcClient) call(token, procedure string, fill func(*dynamicpb.Message), opts ...grpc.CallOption) (*dynamicpb.Message, error) {
	method := c.service.Methods().ByName(protoreflect.Name(procedure))
	request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	fill(request)
	ctx := metadata.AppendToOutgoingContext(c.t.Context(), "authorization", "Bearer "+token)
	return answer, c.Invoke(ctx, "/"+string(c.service.FullName())+"/"+procedure, request, answer, opts...)
}

func get(m *dynamicpb.Message, name string) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func set(m *dynamicpb.Message, name string, value any) {
	m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(value))
}

func takeRequest(id string, count int32) func(*dynamicpb.Message) {
	return func(m *dynamicpb.Message) { set(m, "request_id", id); set(m, "count", count) }
}

func TestGRPCAndJSONShareLeases(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		s := serve(t, l.Ledger, nil)
		c := dial(t, s)
		answer, err := c.call(mine, "TakeKeys", takeRequest("a", 100))
		if err != nil {
			t.Fatal(err)
		}
		codes := get(answer, "codes").List()
		again := s.take("a", 100) // the same request as JSON
		if codes.Len() != 100 || codes.Get(47).String() != again.Codes[47] {
			t.Errorf("gRPC returned %d keys and JSON returned %d keys, want the same 100 keys", codes.Len(), len(again.Codes))
		}
		_, err = c.call(mine, "ReturnKeys", func(m *dynamicpb.Message) {
			set(m, "lease_id", get(answer, "lease_id").Interface())
			unused := m.Mutable(m.Descriptor().Fields().ByName("unused")).List()
			for i := range codes.Len() {
				unused.Append(codes.Get(i))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		state, err := c.call(yours, "Status", func(*dynamicpb.Message) {})
		if err != nil || get(state, "keys_reserved").Int() != 100 || get(state, "space_length").Int() != 6 {
			t.Errorf("Status = %v, error %v, want 100 reserved keys and length 6", state, err)
		}
	})
}

func TestGRPCErrorsHaveCodeAndRetryDelay(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	leaveTen(t, l)
	c := dial(t, serve(t, l.Ledger, func(c *Config) { c.Rate = 10 }))
	if _, err := c.call("unknown", "Status", func(*dynamicpb.Message) {}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("Status with a wrong token: %v, want Unauthenticated", err)
	}
	if _, err := c.call(mine, "TakeKeys", takeRequest("a", MaxCount)); err != nil {
		t.Fatal(err)
	}
	var trailer metadata.MD
	_, err := c.call(mine, "TakeKeys", takeRequest("b", 1000), grpc.Trailer(&trailer))
	details := status.Convert(err).Details()
	if status.Code(err) != codes.ResourceExhausted || len(details) != 1 || len(trailer.Get("retry-after")) != 1 {
		t.Fatalf("TakeKeys above the rate: error %v, details %v, trailer %v; want ResourceExhausted, one detail and retry-after",
			err, details, trailer)
	}
	if info, ok := details[0].(*errdetails.RetryInfo); !ok || info.GetRetryDelay().GetSeconds() < 80 {
		t.Errorf("retry info %v, want nearly 100 seconds", details[0])
	}
}

func TestGRPCHealthCheckReportsReadiness(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	c := dial(t, serve(t, kgstest.NewSQLiteLedger(t).Ledger, func(c *Config) { c.Ready = ready.Load }))
	check := func(service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		answer, err := healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		return answer.GetStatus(), err
	}
	for want, is := range map[healthpb.HealthCheckResponse_ServingStatus]bool{
		healthpb.HealthCheckResponse_SERVING: true, healthpb.HealthCheckResponse_NOT_SERVING: false,
	} {
		ready.Store(is)
		for _, service := range []string{"", "keypool.kgs.v1.KeyService"} {
			if got, err := check(service); got != want || err != nil {
				t.Errorf("health of %q: %v, error %v; want %v", service, got, err, want)
			}
		}
	}
	if _, err := check("another"); status.Code(err) != codes.NotFound {
		t.Errorf("health of another service: %v, want NotFound", err)
	}
}

// Each service refuses requests that are compressed with gzip, and never compresses its answers. The tests above show
// that a client that accepts gzip gets answers.
func TestRequestsAndAnswersAreNotCompressed(t *testing.T) {
	t.Parallel()
	s := serve(t, kgstest.NewSQLiteLedger(t).Ledger, nil)
	c := dial(t, s)
	gzip := grpc.UseCompressor("gzip")
	if _, err := c.call(mine, "TakeKeys", takeRequest("a", 1), gzip); status.Code(err) != codes.Unimplemented {
		t.Errorf("TakeKeys with gzip: %v, want Unimplemented", err)
	}
	if _, err := healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{}, gzip); status.Code(err) != codes.Unimplemented {
		t.Errorf("a health check with gzip: %v, want Unimplemented", err)
	}
	stream, err := reflectpb.NewServerReflectionClient(c).ServerReflectionInfo(t.Context(), gzip)
	if err == nil && stream.CloseSend() == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("reflection with gzip: %v, want Unimplemented", err)
	}
	for _, tt := range []struct {
		procedure, body, encoding string
		status                    int
	}{
		{"keypool.kgs.v1.KeyService/TakeKeys", `{"requestId": "b", "count": 1000}`, "", http.StatusOK},
		{"keypool.kgs.v1.KeyService/TakeKeys", "\x1f\x8b", "gzip", http.StatusNotImplemented},
		{"grpc.health.v1.Health/Check", "\x1f\x8b", "gzip", http.StatusNotImplemented},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/"+tt.procedure, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+mine)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", tt.encoding)
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != tt.status || got != "" {
			t.Errorf("%s with %q: status %d and Content-Encoding %q, want %d and none", tt.procedure, tt.encoding, resp.StatusCode, got, tt.status)
		}
	}
}
