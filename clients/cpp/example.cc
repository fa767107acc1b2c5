// A client of polyscan in C++: it reduces one region of a frame, and then plays a line camera and follows its parts.
//
//   example ADDRESS PICTURE
//
// clients/cpp/build.sh makes it with what Debian 12 has: libgrpc++-dev, libprotobuf-dev, protobuf-compiler-grpc.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "polyscan/v1/inspection.grpc.pb.h"
#include "polyscan/v1/scan.grpc.pb.h"

namespace v1 = polyscan::v1;

namespace {

constexpr int kWidth = 64, kPartLines = 32, kStripLines = 8, kStrips = 40;

// What stands for a rectangle, corner by corner.
void AddRectangle(v1::Region* region, const std::string& name, double x0, double y0, double x1, double y1) {
  region->set_name(name);
  v1::Ring* ring = region->add_rings();
  for (double v : {x0, y0, x1, y0, x1, y1, x0, y1}) ring->add_xy(v);
}

// A deadline reaches the scheduler: a call that can't keep it is refused before its pixels are copied.
void SetDeadline(grpc::ClientContext* context, std::chrono::seconds left) {
  context->set_deadline(std::chrono::system_clock::now() + left);
}

bool Reduce(const std::shared_ptr<grpc::Channel>& channel, const std::string& picture) {
  std::ifstream file(picture, std::ios::binary);
  if (!file) {
    std::cerr << picture << ": can't be read\n";
    return false;
  }
  v1::ReduceRequest request;
  v1::Region* chip = request.mutable_inspection()->mutable_region_set()->add_regions();
  AddRectangle(chip, "U1", 398, 270, 546, 418);
  chip->add_limits("mean in [35, 75]");
  v1::Frame* frame = request.mutable_frame();
  frame->set_encoding(v1::ENCODING_AUTO);
  frame->set_data(std::string(std::istreambuf_iterator<char>(file), {}));

  grpc::ClientContext context;
  SetDeadline(&context, std::chrono::seconds(5));
  v1::ReduceResponse response;
  grpc::Status status = v1::InspectionService::NewStub(channel)->Reduce(&context, request, &response);
  if (!status.ok()) {
    std::cerr << "Reduce: " << status.error_message() << "\n";
    return false;
  }
  for (const v1::RegionResult& region : response.result().regions()) {
    std::cout << region.name() << " " << region.count() << " " << region.channels(0).max() << " "
              << v1::Verdict_Name(region.verdict()) << "\n";
  }
  return response.result().verdict() == v1::VERDICT_PASS;
}

// Sends strips of a gray ramp, at most as many lines as the server gives credit for, and prints what each part came to.
bool Scan(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  SetDeadline(&context, std::chrono::seconds(30));
  auto stream = v1::LineScanService::NewStub(channel)->ScanLines(&context);

  v1::ScanLinesRequest first;
  v1::ScanOpen* open = first.mutable_open();
  AddRectangle(open->mutable_inspection()->mutable_region_set()->add_regions(), "web", 0, 0, kWidth, kPartLines);
  open->mutable_inspection()->mutable_region_set()->mutable_regions(0)->add_limits("max < 250");
  open->mutable_layout()->set_width(kWidth);
  open->mutable_layout()->set_height(kStripLines);
  open->mutable_layout()->set_pixel_format(v1::PIXEL_FORMAT_GRAY8);
  open->set_part_lines(kPartLines);
  open->set_every_lines(kPartLines);
  stream->Write(first);

  int sent = 0, parts = 0;
  uint64_t acked = 0, credit = 0, next_result = 0;
  v1::ScanLinesResponse response;
  while (stream->Read(&response)) {
    switch (response.message_case()) {
      case v1::ScanLinesResponse::kOpened:
        credit = response.opened().credit_line();
        break;
      case v1::ScanLinesResponse::kAck:
        acked = response.ack().next_sequence();
        credit = response.ack().credit_line();
        break;
      case v1::ScanLinesResponse::kPart: {
        const v1::PartResult& part = response.part();
        next_result = part.result_number() + 1;
        parts++;
        std::cout << "part " << part.part_number() << " sum " << part.regions(0).channels(0).sum() << " "
                  << v1::Verdict_Name(part.verdict()) << (part.incomplete() ? " incomplete" : "") << "\n";
        break;
      }
      case v1::ScanLinesResponse::kEvent:
        std::cout << v1::ScanEventKind_Name(response.event().kind()) << "\n";
        break;
      default:
        std::cerr << "an unknown message\n";
    }
    // What there is credit for may go; with nothing under way one strip may go in any case.
    while (sent < kStrips && (uint64_t(sent + 1) * kStripLines <= credit || uint64_t(sent) == acked)) {
      v1::ScanLinesRequest request;
      v1::Strip* strip = request.mutable_strip();
      strip->set_sequence(sent);
      strip->set_first_line(uint64_t(sent) * kStripLines);
      strip->set_next_result(next_result);
      strip->mutable_frame()->set_encoding(v1::ENCODING_RAW);
      strip->mutable_frame()->set_data(std::string(size_t(kWidth) * kStripLines, char(sent)));
      if (!stream->Write(request)) break;
      sent++;
      if (sent == kStrips) stream->WritesDone();
    }
  }
  grpc::Status status = stream->Finish();
  if (!status.ok()) std::cerr << "ScanLines: " << status.error_message() << "\n";
  return status.ok() && parts == kStrips * kStripLines / kPartLines;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: example ADDRESS PICTURE\n";
    return 2;
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  auto channel = grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), arguments);
  bool reduced = Reduce(channel, argv[2]);
  return Scan(channel) && reduced ? 0 : 1;
}
